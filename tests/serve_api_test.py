#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve_api_test.py [NAME [FRAME_SECONDS]]: runs serve_NAME_test.mjs (default: api), the API as a client
in another language sees it. With FRAME_SECONDS, every frame of so long a time counts (page)."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = sys.argv[1] if len(sys.argv) > 1 else "api"
if len(sys.argv) > 2:
    os.environ["HOLDFAST_FRAME_SECONDS"] = sys.argv[2]

os.execvp("node", ["node", "--test-reporter=tap", os.path.join(HERE, f"serve_{NAME}_test.mjs")])
