import FoundationEssentials
import Glibc
import NIOPosix
import Synchronization

/// A process of devices, as the process of the run sees it: it gets orders and answers each.
final class PartProcess: Sendable {
  private struct State {
    var lastOrder = 0
    var waiting: [Int: CheckedContinuation<RunResult?, any Error>] = [:]
    var isLost = false
  }

  /// The process ended, or sent something that is no report.
  struct Lost: Error {}

  let part: LoadPart
  let child: ChildProcess
  private let channel: PartChannel
  private let link: Link

  /// The target of the calls of the channel's loop. It is made before the channel.
  private final class Link: Sendable {
    let state = Mutex(State())
    let onProgress: @Sendable (LoadProgress.Snapshot) -> Void

    init(_ onProgress: @escaping @Sendable (LoadProgress.Snapshot) -> Void) {
      self.onProgress = onProgress
    }

    /// - Throws: where it is no report.
    func received(_ data: Data) throws {
      switch try JSONDecoder().decode(PartReport.self, from: data) {
      case .progress(let snapshot): onProgress(snapshot)
      case .done(let order): answered(order, .success(nil))
      case .result(let order, let result): answered(order, .success(result))
      case .failed(let order, let why): answered(order, .failure(SetupError(why)))
      }
    }

    private func answered(_ order: Int, _ answer: Result<RunResult?, any Error>) {
      state.withLock { $0.waiting.removeValue(forKey: order) }?.resume(with: answer)
    }

    func lost() {
      let waiting = state.withLock { state in
        state.isLost = true
        defer { state.waiting = [:] }
        return state.waiting
      }
      for continuation in waiting.values { continuation.resume(throwing: Lost()) }
    }
  }

  private init(_ part: LoadPart, _ child: ChildProcess, _ channel: PartChannel, _ link: Link) {
    self.part = part
    self.child = child
    self.channel = channel
    self.link = link
  }

  /// Starts the process, and gives it its orders.
  /// - Parameters:
  ///   - words: the command line of the run.
  ///   - onNonsense: called with a sentence where the process sends something that is no report. It is
  ///     killed then.
  /// - Throws: ``SetupError`` with the system's reason.
  static func start(
    _ orders: PartOrders, program: String, words: [String], folder: TemporaryFolder,
    processes: ProcessSet, group: MultiThreadedEventLoopGroup,
    onProgress: @escaping @Sendable (LoadProgress.Snapshot) -> Void,
    onNonsense: @escaping @Sendable (String) -> Void
  ) async throws -> PartProcess {
    var ends: [CInt] = [-1, -1]
    let type = CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue)
    guard socketpair(AF_UNIX, type, 0, &ends) == 0 else {
      throw SetupError("cannot make a socket: \(String(cString: strerror(errno)))")
    }
    defer { Glibc.close(ends[1]) }
    let name = "devices-\(orders.part.number + 1)"
    var command = ChildCommand(
      name: name, executable: program, arguments: ["--part"] + words,
      logPath: folder.file("\(name).log"))
    command.standardInput = ends[1]
    let child: ChildProcess
    do {
      child = try await processes.start(command)
    } catch {
      Glibc.close(ends[0])
      throw error
    }
    let link = Link(onProgress)
    @Sendable func nonsense(_ error: any Error) {
      child.expectEnd()
      child.send(SIGKILL)
      onNonsense("\(name) sent something that is no report: \(error)")
    }
    let channel = try await PartChannel.open(
      ends[0], on: group, bytesMax: PartReport.bytesMax,
      received: { data in
        do { try link.received(data) } catch { nonsense(error) }
      },
      ended: { cause in
        if let cause { nonsense(cause) }
        // One that has closed its channel and lives on would never answer.
        child.send(SIGKILL)
        link.lost()
      })
    let process = PartProcess(orders.part, child, channel, link)
    _ = try await process.ask(.begin(orders))
    return process
  }

  /// - Returns: the result of a load; nil for any other order.
  /// - Throws: ``Lost``; ``SetupError`` with the process's own words.
  func ask(_ what: PartOrder.What) async throws -> RunResult? {
    try await withCheckedThrowingContinuation { continuation in
      let order = link.state.withLock { state -> Int? in
        guard !state.isLost else { return nil }
        state.lastOrder += 1
        state.waiting[state.lastOrder] = continuation
        return state.lastOrder
      }
      guard let order else { return continuation.resume(throwing: Lost()) }
      channel.send(PartOrder(id: order, what: what))
    }
  }

  func stop() { channel.send(PartOrder(id: 0, what: .stop)) }

  func close() { channel.close() }
}
