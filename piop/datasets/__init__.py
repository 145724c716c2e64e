"""Files in and out: data sets, sensors, queries, predictions; told apart by content."""

from piop.datasets.atomic_output import replacing
from piop.datasets.dataset import Dataset
from piop.datasets.inspection import inspect_file
from piop.datasets.queries import Queries, read_queries
from piop.datasets.reader import AnyDataset, StoredDataset, open_dataset, read_dataset
from piop.datasets.sensors import read_sensors
from piop.datasets.writer import DatasetWriter, write_dataset, write_prediction

__all__ = [
    "AnyDataset",
    "Dataset",
    "DatasetWriter",
    "Queries",
    "StoredDataset",
    "inspect_file",
    "open_dataset",
    "read_dataset",
    "read_queries",
    "read_sensors",
    "replacing",
    "write_dataset",
    "write_prediction",
]
