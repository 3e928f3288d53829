import NIOPosix
import Synchronization

/// The devices of a run in several processes, each with the users of a part. Their results are added up.
final class PartedLoad: LoadSource {
  let progress: LoadProgress
  private let parts: [PartProcess]

  private init(_ parts: [PartProcess], _ progress: LoadProgress) {
    self.parts = parts
    self.progress = progress
  }

  var processIDs: [Int32] { parts.map(\.child.processID) }

  /// One thread for the channels of all parts: they carry a few messages a second.
  private static let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)

  /// Starts a process for each part.
  /// - Parameters:
  ///   - words: the command line of the run.
  ///   - fail: called with a sentence where a process sends nonsense.
  /// - Throws: ``SetupError`` with the cause. Started processes are those of `processes`.
  static func start(
    _ parts: [LoadPart], _ target: LoadTarget, words: [String], progress: LoadProgress,
    folder: TemporaryFolder, processes: ProcessSet, fail: @escaping @Sendable (String) -> Void
  ) async throws -> PartedLoad {
    guard let program = Executables.own else {
      throw SetupError("/proc/self/exe cannot be read, so callload cannot start its processes")
    }
    let sum = ProgressSum(parts.count, progress)
    var started: [PartProcess] = []
    for part in parts {
      do {
        started.append(
          try await PartProcess.start(
            PartOrders(part: part, target: target), program: program, words: words,
            folder: folder, processes: processes, group: group,
            onProgress: { sum.report($0, of: part.number) }, onNonsense: fail))
      } catch is PartProcess.Lost {
        throw SetupError("devices-\(part.number + 1) ended at once")
      }
    }
    return PartedLoad(started, progress)
  }

  func connect() async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for part in parts {
        group.addTask {
          do {
            _ = try await part.ask(.connect)
          } catch is PartProcess.Lost {
            throw SetupError("\(part.child.name) ended while its devices connected")
          }
        }
      }
      try await group.waitForAll()
    }
  }

  /// A part that is lost counts only with what was expected of it.
  func load(rate: Double, duration: Double) async throws -> RunResult {
    let calls = DeviceFleet.calls(rate: rate, duration: duration)
    return try await withThrowingTaskGroup(of: RunResult.self) { group in
      for process in parts {
        let part = process.part
        let share = part.share(of: calls)
        group.addTask {
          do {
            let result = try await process.ask(.load(calls: share, seconds: duration))
            guard let result else { throw PartProcess.Lost() }
            return result
          } catch is PartProcess.Lost {
            var result = RunResult()
            result.devicesExpected = part.devices
            result.callsExpected = share
            return result
          }
        }
      }
      var sum = RunResult()
      for try await result in group { sum.add(result) }
      return sum
    }
  }

  func note(_ step: FaultStep) async {
    var concerned = parts[...]
    // It is counted once.
    if case .incident = step { concerned = parts.prefix(1) }
    await withDiscardingTaskGroup { [concerned] group in
      for part in concerned { group.addTask { _ = try? await part.ask(.note(step)) } }
    }
  }

  func disconnect() async {
    await withDiscardingTaskGroup { group in
      for part in parts {
        part.child.expectEnd()
        group.addTask {
          _ = try? await part.ask(.disconnect)
          part.close()
        }
      }
    }
  }

  func stop() { for part in parts { part.stop() } }
}

/// The progress of all parts as that of one.
private final class ProgressSum: Sendable {
  private let snapshots: Mutex<[LoadProgress.Snapshot]>
  private let progress: LoadProgress

  init(_ count: Int, _ progress: LoadProgress) {
    snapshots = Mutex(Array(repeating: LoadProgress.Snapshot(), count: count))
    self.progress = progress
  }

  func report(_ snapshot: LoadProgress.Snapshot, of part: Int) {
    let sum = snapshots.withLock { snapshots in
      snapshots[part] = snapshot
      return LoadProgress.Snapshot(sum: snapshots)
    }
    progress.update { $0 = sum }
  }
}

extension LoadProgress.Snapshot {
  /// The phase is that of the last part. Parts that are ahead of it have done all that it asks of them.
  package init(sum parts: [Self]) {
    self.init()
    phase = parts.map(\.phase).min { $0.rank < $1.rank } ?? .idle
    for part in parts {
      done += part.phase == phase ? part.done : part.all(of: phase)
      total += part.phase == phase ? part.total : part.all(of: phase)
      devicesConnected += part.devicesConnected
      callsLive += part.callsLive
      callsPlaced += part.callsPlaced
      callsCompleted += part.callsCompleted
      errors += part.errors
      violations += part.violations
      // All parts see the same faults.
      faults = max(faults, part.faults)
      rate += part.rate
      ringP99 = [ringP99, part.ringP99].compactMap(\.self).max()
    }
  }
}

extension LoadProgress.Snapshot {
  /// The amount that a part had to do in a phase that it has left.
  fileprivate func all(of phase: LoadProgress.Phase) -> Int {
    switch phase {
    case .connecting, .registering: devicesConnected
    case .calling, .settling: callsPlaced
    case .idle, .disconnecting, .done: total
    }
  }
}

extension LoadProgress.Phase {
  fileprivate var rank: Int { Self.allCases.firstIndex(of: self) ?? 0 }
}
