internal import CallBus
internal import Glibc
internal import Synchronization

/// Opens the next link, on a thread of its own since connecting blocks. Tries until a server accepts, until one refuses
/// twice in a row, or until it is abandoned.
final class Reconnecting: Sendable {
  enum Outcome: ~Copyable, Sendable {
    case opened(Link)
    case refused(BusError)
  }
  private enum State: ~Copyable {
    case connecting
    case done(Outcome)
    case abandoned
  }
  private let state = Mutex(State.connecting)

  /// Milliseconds between two rounds through all servers.
  private static let pause = 100...200
  private static let refusalsMax = 2

  /// - Parameters:
  ///   - lost: the server of the link that broke; it is tried last.
  ///   - pauses: whether to wait before the first attempt, too, since the last link broke at once.
  init(for thread: ConnectionThread, url: String, name: String, lost: String, pauses: Bool) {
    startThread(named: "nats-connect") { [self] in
      if pauses { Self.wait() }
      if let outcome = outcome(thread, url, name, lost), finish(outcome) { thread.poll.wake() }
    }
  }

  private static func wait() { usleep(UInt32(Int.random(in: pause)) * 1000) }

  /// Returns the outcome, once.
  func takeOutcome() -> Outcome? {
    state.withLock { state in
      switch consume state {
      case .done(let outcome):
        state = .abandoned
        return outcome
      case .connecting:
        state = .connecting
        return nil
      case .abandoned:
        state = .abandoned
        return nil
      }
    }
  }

  /// Closes a link that was opened and not taken.
  func abandon() { state.withLock { $0 = .abandoned } }

  private var isAbandoned: Bool {
    state.withLock { state in
      switch state {
      case .abandoned: true
      case .connecting: false
      case .done: false
      }
    }
  }

  private func outcome(
    _ thread: ConnectionThread, _ url: String, _ name: String, _ lost: String
  ) -> Outcome? {
    var refusals = 0
    while !isAbandoned {
      do throws(ConnectFailure) {
        return .opened(try openConnection(for: thread, url: url, name: name, lost: lost))
      } catch {
        if !isAbandoned { thread.reportOutage("\(error.reason)") }
        refusals = error.isRefusal ? refusals + 1 : 0
        if refusals >= Self.refusalsMax { return .refused(error.reason) }
      }
      Self.wait()
    }
    return nil
  }

  /// False if it was abandoned: the outcome's link is then closed.
  private func finish(_ outcome: consuming Outcome) -> Bool {
    var outcome: Outcome? = outcome
    return state.withLock { state in
      switch consume state {
      case .connecting:
        if let outcome = outcome.take() { state = .done(outcome) } else { state = .connecting }
        return true
      case .done(let former):
        state = .done(former)
        return false
      case .abandoned:
        state = .abandoned
        return false
      }
    }
  }
}
