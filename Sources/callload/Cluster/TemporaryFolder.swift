import FoundationEssentials
import Glibc

/// A folder of this run alone, readable by its user alone.
package struct TemporaryFolder: Sendable {
  package let path: String

  /// - Throws: ``SetupError`` where the folder for temporary files cannot be written.
  package init() throws {
    let parent = ProcessInfo.processInfo.environment["TMPDIR"].flatMap { $0.isEmpty ? nil : $0 }
    var template = Array(((parent ?? "/tmp") + "/callload-XXXXXX").utf8CString)
    let made = template.withUnsafeMutableBufferPointer { buffer -> String? in
      guard let start = buffer.baseAddress, let name = mkdtemp(start) else { return nil }
      return String(cString: name)
    }
    guard let made else {
      throw SetupError(
        "cannot make a folder in \(parent ?? "/tmp"): \(String(cString: strerror(errno))); "
          + "set TMPDIR to a folder that can be written")
    }
    path = made
  }

  package func file(_ name: String) -> String { path + "/" + name }

  package func remove() { try? FileManager.default.removeItem(atPath: path) }

  /// Writes a file that its user alone can read.
  package func write(_ text: String, to name: String) throws {
    let target = file(name)
    guard
      FileManager.default.createFile(
        atPath: target, contents: Data(text.utf8), attributes: [.posixPermissions: 0o600])
    else { throw SetupError("cannot write \(target)") }
  }
}
