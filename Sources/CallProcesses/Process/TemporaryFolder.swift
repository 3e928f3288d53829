import FoundationEssentials
import Glibc
import Synchronization

/// A folder of this run, readable only by its user.
///
/// This process locks a file in it. A folder without a lock was left behind by a run that was killed; the
/// next run removes it.
package struct TemporaryFolder: Sendable {
  package let path: String
  private let lock: Lock
  private static let lockName = "lock"

  /// Where folders are made.
  package static var parent: String {
    let variable = ProcessInfo.processInfo.environment["TMPDIR"]
    return variable.flatMap { $0.isEmpty ? nil : $0 } ?? "/tmp"
  }

  /// - Parameter program: begins its name.
  /// - Throws: ``ProcessFailure`` where the folder for temporary files cannot be written.
  package init(_ program: String) throws {
    let parent = Self.parent
    Self.removeAbandoned(in: parent, prefix: program + "-")
    var template = Array("\(parent)/\(program)-XXXXXX".utf8CString)
    let made = template.withUnsafeMutableBufferPointer { buffer -> String? in
      guard let start = buffer.baseAddress, let name = mkdtemp(start) else { return nil }
      return String(cString: name)
    }
    guard let made else {
      throw ProcessFailure(
        "cannot make a folder in \(parent): \(String(cString: strerror(errno))); "
          + "set TMPDIR to a folder that can be written")
    }
    path = made
    // Under another name until it is locked, so that no other run removes it in between.
    let descriptor = open("\(made)/new", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    lock = Lock(descriptor)
    guard descriptor >= 0, flock(descriptor, LOCK_EX | LOCK_NB) == 0,
      rename("\(made)/new", "\(made)/\(Self.lockName)") == 0
    else { throw ProcessFailure("cannot lock \(made): \(String(cString: strerror(errno)))") }
  }

  private init(path: String, lock: Lock) {
    self.path = path
    self.lock = lock
  }

  /// Makes a folder that is removed with this one. Call neither `remove` nor `keep` on it.
  /// - Throws: ``ProcessFailure`` with the system's reason.
  package func inner(_ name: String) throws -> TemporaryFolder {
    let inner = file(name)
    guard mkdir(inner, 0o700) == 0 else {
      throw ProcessFailure("cannot make \(inner): \(String(cString: strerror(errno)))")
    }
    return TemporaryFolder(path: inner, lock: lock)
  }

  package func file(_ name: String) -> String { path + "/" + name }

  package func has(_ name: String) -> Bool { FileManager.default.fileExists(atPath: file(name)) }

  /// Safe to call twice.
  package func remove() {
    try? FileManager.default.removeItem(atPath: path)
    lock.release()
  }

  /// Keeps it: no later run removes it.
  package func keep() {
    unlink(file(Self.lockName))
    lock.release()
  }

  /// - Throws: ``ProcessFailure`` where the file cannot be written.
  package func write(_ text: String, to name: String) throws {
    let target = file(name)
    guard
      FileManager.default.createFile(
        atPath: target, contents: Data(text.utf8), attributes: [.posixPermissions: 0o600])
    else { throw ProcessFailure("cannot write \(target)") }
  }

  /// An open file that is locked. The kernel closes it, and so unlocks it, when this process ends.
  private final class Lock: Sendable {
    private let descriptor: Mutex<Int32?>
    init(_ descriptor: Int32) { self.descriptor = Mutex(descriptor) }
    func release() {
      descriptor.withLock { if let open = $0.take() { close(open) } }
    }
  }

  private static func removeAbandoned(in parent: String, prefix: String) {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: parent)) ?? []
    for name in names where name.hasPrefix(prefix) {
      let folder = "\(parent)/\(name)"
      var facts = stat()
      guard lstat(folder, &facts) == 0, facts.st_mode & S_IFMT == S_IFDIR, facts.st_uid == getuid()
      else { continue }
      let lock = open("\(folder)/\(lockName)", O_RDWR | O_CLOEXEC | O_NOFOLLOW)
      guard lock >= 0 else { continue }
      if flock(lock, LOCK_EX | LOCK_NB) == 0 { try? FileManager.default.removeItem(atPath: folder) }
      close(lock)
    }
  }
}
