"""Images: by name, as batches, as a model wants them."""

from vitscope.core.interface import class_count as class_count
from vitscope.data.batches import Batches as Batches
from vitscope.data.batches import batches as batches
from vitscope.data.catalog import CATALOG as CATALOG
from vitscope.data.config import DataConfig as DataConfig
from vitscope.data.config import data_config as data_config
from vitscope.data.images import ImageData as ImageData
from vitscope.data.images import check_labels as check_labels
from vitscope.data.labels import relabel as relabel
from vitscope.data.preprocess import preprocess as preprocess
from vitscope.data.readout import Readout as Readout
from vitscope.data.readout import readout as readout
from vitscope.data.sources import load_data as load_data
from vitscope.data.streams.frames import FrameData as FrameData
from vitscope.data.streams.moving_crops import moving_crops as moving_crops
