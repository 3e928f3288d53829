import FoundationEssentials

package enum Executables {
  package static func find(_ name: String, also folders: [String] = []) -> String? {
    let path = ProcessInfo.processInfo.environment["PATH"] ?? ""
    return (path.split(separator: ":").map(String.init) + folders)
      .map { $0 + "/" + name }
      .first(where: isExecutable)
  }

  package static func isExecutable(_ path: String) -> Bool {
    var isFolder = false
    return FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) && !isFolder
      && FileManager.default.isExecutableFile(atPath: path)
  }

  /// The path of this program; nil without /proc.
  package static var own: String? {
    try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
  }

  package static func beside(_ name: String) -> String? {
    guard let own, let slash = own.lastIndex(of: "/") else { return nil }
    let path = own[...slash] + name
    return isExecutable(String(path)) ? String(path) : nil
  }

  /// A program of this package: beside this one, or where the package is built.
  /// - Throws: ``ProcessFailure`` if it is in neither place.
  package static func built(_ name: String) throws -> String {
    let build = FileManager.default.currentDirectoryPath + "/.build/release/" + name
    if let path = beside(name) ?? (isExecutable(build) ? build : nil) { return path }
    throw ProcessFailure("\(name) is not built: it is neither \(build) nor beside \(own ?? "?")")
  }

  /// NATS_SERVER, or in PATH, or in Debian's folder, which only root has in PATH.
  /// - Throws: ``ProcessFailure`` with the remedy.
  package static func natsServer() throws -> String {
    let named = ProcessInfo.processInfo.environment["NATS_SERVER"]
    if let path = named ?? find("nats-server", also: ["/usr/sbin", "/usr/local/bin"]) {
      return path
    }
    throw ProcessFailure(
      "nats-server is not there: install it (apt-get install nats-server), or set NATS_SERVER to its path"
    )
  }
}
