internal import CallCore

/// Commands that came to a shard before it serves.
///
/// A command that is retransmitted takes its new place. For when a new owner asks for sessions, each
/// edge says everything again that has no answer yet, in the right order; what came here by itself
/// may lack its beginning, which went to the former owner.
struct CommandQueue {
  private struct Key: Hashable {
    var session: SessionRef
    var request: UInt64
  }
  /// nil: retransmitted later.
  private var commands: [Command?] = []
  private var places: [Key: Int] = [:]

  /// What was retransmitted counts twice.
  var count: Int { commands.count }
  private(set) var bytes = 0

  /// - Parameter bytes: about how many it had on the bus.
  mutating func append(_ command: Command, bytes: Int) {
    self.bytes += bytes
    if command.request != 0 {
      let key = Key(session: command.session, request: command.request)
      if let former = places.updateValue(commands.count, forKey: key) { commands[former] = nil }
    }
    commands.append(command)
  }

  /// Everything, in order. Leaves the queue empty.
  mutating func takeAll() -> [Command] {
    defer { self = CommandQueue() }
    return commands.compactMap { $0 }
  }
}
