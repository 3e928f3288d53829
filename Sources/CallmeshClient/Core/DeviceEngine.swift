internal import CallCore
internal import CallMachine
internal import CallWire
internal import Synchronization

/// A device behind one lock. Whoever has something for it, the app, a socket or a timer, takes the lock, lets the driver
/// decide and act, and leaves. Nothing waits while it holds the lock.
///
/// Order of locks: a device's, then a call's, then a reader's.
final class DeviceEngine: Sendable {
  private let core: Mutex<DeviceCore>
  private let clock: any DeviceClock
  private let getToken: (@Sendable () async throws -> String)?

  init(_ options: DeviceOptions, _ transport: any Transport, _ clock: any DeviceClock) {
    self.clock = clock
    getToken = options.getToken
    core = Mutex(DeviceCore(options, transport, clock))
    core.withLock {
      $0.connectEngine(
        report: { [weak self] number, event in
          self?.run { $0.network?.happened(event, to: number) }
        }, fetchToken: { [weak self] in self?.fetchToken() })
    }
  }

  /// Does something under the lock, and then what follows from it.
  func run<Result: Sendable>(_ body: (DeviceCore) -> Result) -> Result {
    core.withLock { core in
      let result = body(core)
      core.settle(self)
      if let time = core.armed() {
        clock.wake(at: time) { [weak self] in self?.run { $0.fire(at: time) } }
      }
      return result
    }
  }

  private func fetchToken() {
    guard let getToken else { return }
    // Ends with the app's own function; its answer to a device that is gone does nothing.
    Task { [weak self] in
      do {
        let token = try await getToken()
        self?.run { $0.tokenCame(token) }
      } catch {
        self?.run { $0.tokenFailed(error) }
      }
    }
  }

  // MARK: Commands

  /// Sends a command and waits for its reply. The command goes on if the task that waits is cancelled.
  func send(
    _ command: ClientCommand, of call: Call? = nil
  ) async throws(CallmeshError) -> ServerReply {
    let result = await withCheckedContinuation { continuation in
      run { $0.submit(command, of: call) { continuation.resume(returning: $0) } }
    }
    return try result.get()
  }

  /// - Throws: also where the reply is not the state of a call.
  func state(_ command: ClientCommand, of call: Call? = nil) async throws(CallmeshError)
    -> CallState
  {
    if case .call(let state) = try await send(command, of: call) { return state }
    throw .strangeReply
  }
}

extension CallmeshError {
  static let strangeReply = CallmeshError(
    .internalError, "The reply is of another kind than expected.")
}
