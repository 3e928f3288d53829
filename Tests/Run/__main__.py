"""python3 Tests/Run test: see run.py."""

import sys

from run import main

sys.exit(main())
