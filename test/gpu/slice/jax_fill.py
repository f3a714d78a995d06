# SPDX-License-Identifier: Apache-2.0
"""JAX takes three quarters of what it is shown when it starts. Argument: the limit."""
import sys

import jax
import jax.numpy as jnp
from common import say

limit = int(sys.argv[1])
x = jnp.ones((4096, 4096), dtype=jnp.float32)
y = float((x @ x)[0, 0])
stats = jax.devices()[0].memory_stats() or {}
pool = stats.get("bytes_limit", 0)
message = ""
try:
    jnp.ones(limit, dtype=jnp.uint8).block_until_ready()
except Exception as e:  # whatever class this release has for it
    message = str(e).split("\n")[0]
say("jax", y == 4096.0 and 0 < pool <= limit and "RESOURCE_EXHAUSTED" in message,
    pool=pool, limit=limit, share="%.3f" % (pool / limit), message=message[:160])
