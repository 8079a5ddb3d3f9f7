# Runs a command at a pseudo-terminal (of COLUMNS by LINES, where these are set): what comes on stdin is typed, what it shows
# goes to stdout. For chat.slow.test.ts and fleet-operating.test.ts.
import fcntl
import os
import pty
import select
import struct
import sys
import termios

pid, terminal = pty.fork()
if pid == 0:
    size = [int(os.environ.pop(name, 0)) for name in ("LINES", "COLUMNS")]
    if all(size):
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    os.execvp(sys.argv[1], sys.argv[1:])
sources = [terminal, 0]
while True:
    for source in select.select(sources, [], [])[0]:
        try:
            data = os.read(source, 65536)
        except OSError:
            data = b""
        if source == 0:
            if data:
                os.write(terminal, data)
            else:
                sources.remove(0)
        elif data:
            os.write(1, data)
        else:
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
