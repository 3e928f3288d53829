"""The JavaScript client alone, without the phone: against a cluster of processes, with media in Chromium, and README's page."""

import os
import shutil
import subprocess
import unittest

from browsers import program
from cluster import Cluster
from pages import WEB


@unittest.skipUnless(shutil.which("node"), "SKIPPED: there is no node (Debian: apt-get install nodejs)")
class Client(unittest.TestCase):
    def test_with_a_cluster_and_in_the_browser(self):
        cluster = Cluster(["*"])
        try:
            told = {
                "CALLMESH_EDGES": ",".join(cluster.edge_urls),
                "CALLMESH_KEYS": str(cluster.keys_file),
                "CALLMESH_CHROMIUM": program("chromium", "chromium-browser", "google-chrome"),
            }
            tests = ["test/cluster.test.js", "test/browser.test.js"]
            done = subprocess.run(
                ["node", "--test", *tests], cwd=WEB, env={**os.environ, **told}, capture_output=True, text=True, timeout=240
            )
        finally:
            cluster.close()
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-1000:])
        self.assertIn("# skipped 0", done.stdout)
