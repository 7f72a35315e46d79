#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve_api_test.py: runs serve_api_test.mjs, the API as a client in another language sees it."""

import os

HERE = os.path.dirname(os.path.abspath(__file__))

os.execvp("node", ["node", "--test-reporter=tap", os.path.join(HERE, "serve_api_test.mjs")])
