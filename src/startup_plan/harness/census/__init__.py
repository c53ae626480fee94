# SPDX-License-Identifier: Apache-2.0
"""Every setting and variable of the installed vLLM: does it move memory, and is it in the key?"""
