# Started by Buildbot. Looks up master.cfg at each start, so that this folder can be moved and
# netbisect installed again.
import os
from importlib.resources import files
from pathlib import Path

from buildbot.master import BuildMaster
from twisted.application import service
from twisted.python.log import FileLogObserver, ILogObserver
from twisted.python.logfile import LogFile

os.umask(0o077)  # the databases have secrets, logs may have some
LOG = {"rotateLength": 10_000_000, "maxRotatedFiles": 10}

basedir = str(Path(__file__).resolve().parent)
configfile = str(Path(str(files("netbisect") / "master.cfg")).resolve())

# Buildbot knows its folders by this line.
application = service.Application('buildmaster')
logfile = LogFile.fromFullPath(f"{basedir}/twistd.log", **LOG)
application.setComponent(ILogObserver, FileLogObserver(logfile).emit)

master = BuildMaster(basedir, configfile)
master.setServiceParent(application)
master.log_rotation.rotateLength = LOG["rotateLength"]
master.log_rotation.maxRotatedFiles = LOG["maxRotatedFiles"]
