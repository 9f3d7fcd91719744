"""A training step of Net. An argument is added to its inputs: 5 keeps the logarithm finite."""

import sys

import torch
from net import Net

torch.manual_seed(0)
torch.set_num_threads(1)
net = Net()
step = torch.compile(net, backend="opstep")
optimizer = torch.optim.Adam(net.parameters())
x = torch.rand(4, 8) + float(sys.argv[1])
for _ in range(2):
    optimizer.zero_grad()
    loss = step(x).square().mean()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex())
with torch.no_grad():
    print("weight", [value.hex() for value in net.blocks[1].linear.weight[0, :3].tolist()])
    print("gradient", [value.hex() for value in net.head.weight.grad[0, :3].tolist()])
