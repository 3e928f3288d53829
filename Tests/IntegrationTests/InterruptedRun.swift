import Foundation

/// A run of callload that is sent SIGINT as soon as it says that calls were placed.
struct InterruptedRun: Sendable {
  var status: Int32
  /// Its standard output.
  var report: String
  /// Its standard error.
  var said: String
  /// The processes that it had started by then.
  var children: [ProcessFacts]

  /// Off the cooperative pool, as ``TestCluster/run(_:_:)``.
  /// - Parameter folder: its folder for temporary files.
  static func of(_ arguments: [String], in folder: String) async throws -> InterruptedRun {
    let program = try TestCluster.program("callload")
    return try await withCheckedThrowingContinuation { continuation in
      Thread.detachNewThread {
        continuation.resume(with: Result { try runBlocking(program, arguments, folder) })
      }
    }
  }

  private static func runBlocking(
    _ program: String, _ arguments: [String], _ folder: String
  ) throws -> InterruptedRun {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: program)
    process.arguments = arguments
    process.environment = ProcessInfo.processInfo.environment.merging(["TMPDIR": folder]) { $1 }
    let report = folder + "/report"
    _ = FileManager.default.createFile(atPath: report, contents: nil)
    process.standardOutput = FileHandle(forWritingAtPath: report)
    let pipe = Pipe()
    process.standardError = pipe
    try process.run()
    let summary = /[1-9][0-9]* calls, [0-9]+ faults/
    var said = ""
    var children: [ProcessFacts]?
    while true {
      // Waits for its next words; empty when it has ended.
      let data = pipe.fileHandleForReading.availableData
      if data.isEmpty { break }
      said += String(decoding: data, as: UTF8.self)
      guard children == nil, said.contains(summary) else { continue }
      children = ProcessFacts.children(of: process.processIdentifier)
      kill(process.processIdentifier, SIGINT)
    }
    process.waitUntilExit()
    return InterruptedRun(
      status: process.terminationStatus,
      report: (try? String(contentsOfFile: report, encoding: .utf8)) ?? "", said: said,
      children: children ?? [])
  }
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
