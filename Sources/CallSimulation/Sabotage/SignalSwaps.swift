internal import CallCore
internal import CallWire

/// Swaps two signals of one device and call that arrive together. Retransmissions are swapped the
/// same way.
struct SignalSwaps {
  private struct Key: Hashable {
    var session: SessionRef
    var request: UInt64
  }
  private var bodies: [Key: Command.Body] = [:]

  mutating func apply(to batch: inout CommandBatch) {
    var last: Int?
    for index in batch.commands.indices {
      let command = batch.commands[index]
      guard case .call(let call, .signal) = command.body else { continue }
      let key = Key(session: command.session, request: command.request)
      if let body = bodies[key] {
        batch.commands[index].body = body
        continue
      }
      bodies[key] = command.body
      guard let before = last.take(), case .call(call, .signal) = batch.commands[before].body,
        batch.commands[before].session == command.session
      else {
        last = index
        continue
      }
      swap(before, index, &batch)
    }
  }

  private mutating func swap(_ one: Int, _ other: Int, _ batch: inout CommandBatch) {
    let body = batch.commands[one].body
    batch.commands[one].body = batch.commands[other].body
    batch.commands[other].body = body
    for index in [one, other] {
      let command = batch.commands[index]
      bodies[Key(session: command.session, request: command.request)] = command.body
    }
  }
}
