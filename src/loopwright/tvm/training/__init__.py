"""Training of models: losses, optimizers, and a trainer that runs both."""

from . import loss as loss
from . import optimizer as optimizer
from . import utils as utils
from .setup_trainer import SetupTrainer
from .trainer import Trainer
from .utils import AppendLoss
