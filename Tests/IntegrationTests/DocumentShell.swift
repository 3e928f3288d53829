import CallProcesses
import Foundation

/// Runs blocks of the documentation as they are printed, in a network of their own where the machine
/// allows it: then the ports that they name are free.
struct DocumentShell: Sendable {
  /// Ends what the blocks leave running, and says which command failed.
  private static let prologue = """
    set -eEuo pipefail
    trap 'echo "FAILED with status $?: $BASH_COMMAND"' ERR
    trap 'kill -KILL $(jobs -p) 2>/dev/null || true; wait' EXIT

    """

  /// The folders that installing changes.
  private static let changed = ["/etc", "/usr/local", "/usr/lib", "/var"]

  /// Whether there can be a network of the test's own.
  static let hasNetwork = succeeds(["unshare", "--mount", "--net", "ip", "link", "set", "lo", "up"])

  /// Whether the machine's folders can be covered, so that what is installed is gone with the shell.
  static let coversFolders =
    geteuid() == 0
    && succeeds(["unshare", "--mount", "--net", "bash", "-c", "set -e\n" + cover("/mnt")])

  /// Runs a session's blocks in a copy of the repository that has what a build has made.
  /// - Returns: status 0 where every command succeeded; what they printed.
  static func run(_ session: DocumentBlock.Session) async throws -> TestCluster.Output {
    let folder = NSTemporaryDirectory() + "/callmesh-docs-\(UUID().uuidString)"
    let manager = FileManager.default
    try manager.createDirectory(
      atPath: folder + "/checkout/.build", withIntermediateDirectories: true)
    defer { try? manager.removeItem(atPath: folder) }
    for name in try manager.contentsOfDirectory(atPath: DocumentBlock.repository)
    where !name.hasPrefix(".") && name != "keys.json" {
      try manager.createSymbolicLink(
        atPath: folder + "/checkout/" + name,
        withDestinationPath: DocumentBlock.repository + "/" + name)
    }
    let programs = (try TestCluster.program("callnode") as NSString).deletingLastPathComponent
    try manager.createSymbolicLink(
      atPath: folder + "/checkout/.build/release", withDestinationPath: programs)
    let script =
      prologue + session.blocks.map { "echo '### \($0)'\n" + $0.text }.joined(separator: "\n")
    try script.write(toFile: folder + "/blocks.sh", atomically: true, encoding: .utf8)

    var setUp = "cd \(folder)/checkout\n"
    if hasNetwork || session.isRoot { setUp = "ip link set lo up\n" + setUp }
    if session.isRoot { setUp = cover("/mnt") + setUp }
    let inside = "set -e\n\(setUp)exec timeout 120 bash ../blocks.sh </dev/null 2>&1"
    let alone = hasNetwork || session.isRoot ? ["unshare", "--mount", "--net"] : []
    return try await TestCluster.run("/usr/bin/env", alone + ["bash", "-c", inside])
  }

  /// Commands that put a layer over each folder; it is gone with the mount namespace.
  private static func cover(_ place: String) -> String {
    "mount -t tmpfs tmpfs \(place)\n"
      + changed.map { folder in
        let layer = place + "/" + folder.split(separator: "/").joined(separator: "-")
        return "mkdir \(layer) \(layer)-work\n"
          + "mount -t overlay overlay -o lowerdir=\(folder),upperdir=\(layer),workdir=\(layer)-work \(folder)\n"
      }.joined()
  }

  private static func succeeds(_ command: [String]) -> Bool {
    let command = ChildCommand(name: "env", executable: "/usr/bin/env", arguments: command)
    return (try? CommandOutput.now(command))?.status == 0
  }
}
