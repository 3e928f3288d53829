internal import Glibc

/// Ends a process that has used NATS; what was printed is written first.
///
/// `exit` would tear OpenSSL down while threads of the library may still close their connections: they would then use
/// locks that are gone, and a command that has done its work would end with signal 11.
package func endProcess(_ status: Int32) -> Never {
  fflush(nil)
  _exit(status)
}
