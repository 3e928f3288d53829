import CallCore
import Synchronization

/// The rules themselves behind an edge: one shard for all users, whose journal takes everything at
/// once.
final class RealShards: Sendable {
  private let machine: Mutex<ShardMachine>

  init() {
    var machine = ShardMachine(shard: 0, epoch: 1, limits: CallLimits())
    var outcome = Outcome()
    machine.begin(now: Timestamp(microseconds: wallSeconds * 1_000_000), into: &outcome)
    self.machine = Mutex(machine)
  }

  /// Handles a command as if it came so long after the test began.
  /// - Returns: its reply, and what is sent to sessions.
  func handle(
    _ command: Command, after: Span = .seconds(1)
  ) -> (reply: Reply?, deliveries: [(SessionRef, Delivery)]) {
    machine.withLock { machine in
      var outcome = Outcome()
      let now = Timestamp(microseconds: wallSeconds * 1_000_000) + after
      machine.fire(now: now, into: &outcome)
      machine.handle(command, now: now, into: &outcome)
      var reply: Reply?
      var deliveries: [(SessionRef, Delivery)] = []
      var effects = outcome.effects
      while !effects.isEmpty {
        switch effects.removeFirst() {
        case .reply(command.session, command.request, let said): reply = said
        case .deliver(let session, let delivery): deliveries.append((session, delivery))
        case .store(_, let token), .remove(_, _, let token):
          var stored = Outcome()
          machine.registrationStored(token: token, ok: true, now: now, into: &stored)
          effects += stored.effects
        default: break
        }
      }
      return (reply, deliveries)
    }
  }
}
