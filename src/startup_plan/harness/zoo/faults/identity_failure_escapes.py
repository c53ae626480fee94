# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: a device query that fails ends the boot."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        '            self.trouble = ""\n        except Exception as error:',
        '            self.trouble = ""\n        except LookupError as error:',
    ),
    (
        "    except _VoteError:\n        raise\n    except Exception as error:",
        "    except LookupError as error:",
    ),
)
