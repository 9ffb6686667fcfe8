"""What people can get wrong, told in one sentence."""


class UserError(Exception):
    """A mistake or mishap the user can mend; the command line prints the sentence and exits with code 2."""
