"""Control with networks: one file per agent, and one loop that trains them. `docs/control.md` compares the agents."""

from gradtd.deep.control.agent import Agent as Agent
from gradtd.deep.control.agent import AgentState as AgentState
from gradtd.deep.control.dqn import DQN as DQN
from gradtd.deep.control.eqrc import EQRC as EQRC
from gradtd.deep.control.impression_q import ImpressionQ as ImpressionQ
from gradtd.deep.control.loop import Exploration as Exploration
from gradtd.deep.control.loop import Training as Training
from gradtd.deep.control.loop import train as train
from gradtd.deep.control.semi_gradient_q import SemiGradientQ as SemiGradientQ
