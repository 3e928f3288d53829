import CallProcesses
import Foundation

/// A run of callload that is sent a signal as soon as it says that calls were placed.
struct InterruptedRun: Sendable {
  var status: Int32
  /// Its standard output.
  var report: String
  /// Its standard error.
  var said: String
  /// The processes that it had started by then.
  var children: [ProcessFacts]

  /// The files that are left in its folder for temporary ones.
  var files: [String]

  static func of(signal: Int32) async throws -> InterruptedRun {
    let folder = NSTemporaryDirectory() + "/callmesh-test-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let (report, said) = (folder + "/report", folder + "/said")
    _ = FileManager.default.createFile(atPath: said, contents: nil)
    let errors = try FileHandle(forWritingTo: URL(filePath: said))
    var command = ChildCommand(
      name: "callload", executable: try Executables.built("callload"),
      arguments: [
        "--devices", "60", "--rate", "5", "--duration", "60s", "--shards", "16", "--summary", "1s",
      ], logPath: report)
    command.standardError = errors.fileDescriptor
    command.environment["TMPDIR"] = folder
    let callload = try await ChildLauncher.start(command)
    withExtendedLifetime(errors) {}
    defer { callload.killNow() }
    func read(_ path: String) -> String {
      (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
    }
    let summary = /[1-9][0-9]* calls, [0-9]+ faults/
    _ = await Pause.until(within: timeout) {
      callload.poll() != nil || read(said).contains(summary)
    }
    let children = ProcessFacts.children(of: callload.processID)
    callload.send(signal)
    let end = await callload.end(within: timeout)
    return InterruptedRun(
      status: end?.status ?? -1, report: read(report), said: read(said), children: children,
      files: try FileManager.default.contentsOfDirectory(atPath: folder).sorted())
  }

  private static let timeout: Duration = .seconds(300)
}

/// A process as `/proc` tells of it. Its id may be another's one day, but not together with the time at
/// which it began.
struct ProcessFacts: Sendable {
  let id: Int32
  let name: String
  private let state: String
  private let parent: Int32
  private let began: String

  /// nil: there is no such process.
  private init?(_ id: Int32) {
    guard let text = try? String(contentsOfFile: "/proc/\(id)/stat", encoding: .utf8),
      let open = text.firstIndex(of: "("), let close = text.lastIndex(of: ")")
    else { return nil }
    let fields = text[text.index(after: close)...].split(separator: " ").map(String.init)
    guard fields.count > 19, let parent = Int32(fields[1]) else { return nil }
    self.id = id
    name = String(text[text.index(after: open)..<close])
    state = fields[0]
    self.parent = parent
    began = fields[19]
  }

  static func children(of parent: Int32) -> [ProcessFacts] {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
    return names.compactMap { Int32($0) }.compactMap { ProcessFacts($0) }
      .filter { $0.parent == parent }
  }

  /// A process that has ended is not alive, even if its parent has not asked for its status yet.
  var isAlive: Bool {
    guard let now = ProcessFacts(id) else { return false }
    return now.began == began && now.state != "Z"
  }
}
