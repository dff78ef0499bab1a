"""One typed layer for everything a user can say: which values are allowed, how they are read, how they are refused.

from vitscope.core.arguments import Count, checked

@checked
def examine(model: nn.Module, limit: Count | None = None): ...
"""

from vitscope.core.arguments.calling import check_fields as check_fields
from vitscope.core.arguments.calling import checked as checked
from vitscope.core.arguments.calling import names_checked as names_checked
from vitscope.core.arguments.checking import check as check
from vitscope.core.arguments.files import files_in_words as files_in_words
from vitscope.core.arguments.files import from_yaml as from_yaml
from vitscope.core.arguments.files import read as read
from vitscope.core.arguments.files import read_list as read_list
from vitscope.core.arguments.kinds import describe as describe
from vitscope.core.arguments.vocabulary import *  # noqa: F403
