"""What exams find, each in a file under the exam's name: result, table, texts, reading and figures.

Nothing here needs torch: finished runs are read and shown without it. A file put here is found by itself.
"""

import importlib
import pkgutil

from vitscope.results.result import Result as Result
from vitscope.results.result import result_types as result_types

MODULES = [importlib.import_module(found.name) for found in pkgutil.iter_modules(__path__, f"{__name__}.")]
