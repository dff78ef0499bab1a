"""vitscope tells you how a vision model works.

    import vitscope as vs

    model = vs.create_model("vit_mini", pretrained=True)
    data = vs.load_data("fashion", split="test")
    print(vs.anatomy(model))
    results = vs.diagnose(model, data, exams=["prediction", "fourier", "variance"])

Everything is loaded on first use, so that `import vitscope` stays quick.
"""

import importlib
from typing import TYPE_CHECKING, Any

from vitscope.core import VERSION

if TYPE_CHECKING:
    from vitscope import curvature as curvature
    from vitscope import data as data
    from vitscope import exams as exams
    from vitscope import models as models
    from vitscope import plots as plots
    from vitscope import studies as studies
    from vitscope import surgery as surgery
    from vitscope import training as training
    from vitscope.anatomy import Tap as Tap
    from vitscope.anatomy import add_rule as add_rule
    from vitscope.anatomy import anatomy as anatomy
    from vitscope.core.errors import VitscopeError as VitscopeError
    from vitscope.core.interface import declare as declare
    from vitscope.data import load_data as load_data
    from vitscope.engine.diagnose import diagnose as diagnose
    from vitscope.engine.evaluate import evaluate as evaluate
    from vitscope.findings import Result as Result
    from vitscope.models import create_model as create_model
    from vitscope.models import list_models as list_models
    from vitscope.models import save_model as save_model
    from vitscope.prescribe import prescribe as prescribe
    from vitscope.report import report as report
    from vitscope.studies.build_up import build_up as build_up
    from vitscope.studies.compare import compare as compare
    from vitscope.studies.reproduce import reproduce as reproduce
    from vitscope.studies.run import study as study
    from vitscope.studies.study import Study as Study
    from vitscope.studies.survey import survey as survey
    from vitscope.surgery.tools.operate import operate as operate
    from vitscope.training import train as train

__version__ = VERSION

_WHERE = {
    "Tap": "vitscope.anatomy:Tap",
    "add_rule": "vitscope.anatomy:add_rule",
    "anatomy": "vitscope.anatomy:anatomy",
    "build_up": "vitscope.studies.build_up:build_up",
    "compare": "vitscope.studies.compare:compare",
    "create_model": "vitscope.models:create_model",
    "curvature": "vitscope.curvature",
    "data": "vitscope.data",
    "declare": "vitscope.core.interface:declare",
    "diagnose": "vitscope.engine.diagnose:diagnose",
    "evaluate": "vitscope.engine.evaluate:evaluate",
    "exams": "vitscope.exams",
    "list_models": "vitscope.models:list_models",
    "load_data": "vitscope.data:load_data",
    "models": "vitscope.models",
    "operate": "vitscope.surgery.tools.operate:operate",
    "plots": "vitscope.plots",
    "prescribe": "vitscope.prescribe:prescribe",
    "report": "vitscope.report:report",
    "Result": "vitscope.findings:Result",
    "save_model": "vitscope.models:save_model",
    "studies": "vitscope.studies",
    "reproduce": "vitscope.studies.reproduce:reproduce",
    "study": "vitscope.studies.run:study",
    "Study": "vitscope.studies.study:Study",
    "surgery": "vitscope.surgery",
    "survey": "vitscope.studies.survey:survey",
    "train": "vitscope.training:train",
    "training": "vitscope.training",
    "VitscopeError": "vitscope.core.errors:VitscopeError",
}

_FIRST = {  # what has to be there, too
    "vitscope.models": "vitscope.surgery",  # to open a run folder whose model was operated on
    "vitscope.engine": "vitscope.exams",  # to be found by their names
}

__all__ = [*_WHERE, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'vitscope' has no attribute '{name}'")
    module_name, _, attribute = _WHERE[name].partition(":")
    for package, needed in _FIRST.items():
        if module_name.startswith(package):
            importlib.import_module(needed)
    module = importlib.import_module(module_name)
    return getattr(module, attribute) if attribute else module


def __dir__() -> list[str]:
    return sorted(__all__)
