"""Run compiled models on another machine: export here, run and time there.

On the other machine (it needs `pip install loopwright[rpc]`, but no compiler):

    $ LOOPWRIGHT_RPC_SECRET=... python -m loopwright.rpc server --host 0.0.0.0 --port 9090

Here, with the same secret:

    remote = lw.rpc.connect("board", 9090, secret="...")
    remote.upload("model.so")
    model = remote.load_module("model.so")
    x = lw.nd.array(values, remote.cpu())
    print(model["main"](x).numpy())
    print(model.time_evaluator("main", remote.cpu(), number=100)(x))

Arrays, numbers, texts and exported libraries cross, nothing else; nothing is unpickled.
"""

from .channel import PeerError as PeerError
from .client import LocalSession as LocalSession
from .client import RPCSession as RPCSession
from .client import connect as connect
from .remote import RemoteError as RemoteError
from .server import Server as Server
from .tracker import Tracker as Tracker
from .tracker import TrackerSession as TrackerSession
from .tracker import connect_tracker as connect_tracker
