"""r2a demo."""


def main(argv):
    raise NotImplementedError
