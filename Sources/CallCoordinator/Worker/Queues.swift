package import CallBus
package import CallCore
package import CallWire

/// Collects what all shards of a worker have for edges in one batch, so that each edge gets one message.
package struct EdgeOutbox: Sendable {
  private struct Parcel {
    let edge: UInt64
    let subject: String
    var items: [EdgeItem] = []
    var bytes = 0
    /// The last invite of each call that was just placed. Those of one call follow each other.
    var invites: [(call: CallID, index: Int)] = []

    init(edge: UInt64, subject: String) { (self.edge, self.subject) = (edge, subject) }

    mutating func add(_ item: EdgeItem, bytes: Int) {
      if item.ringsSince != nil, case .delivery(let delivery) = item.body {
        noteInvite(of: delivery.call)
      }
      items.append(item)
      self.bytes += bytes
    }

    private mutating func noteInvite(of call: CallID) {
      if let known = invites.lastIndex(where: { $0.call == call }) {
        items[invites[known].index].ringsSince = nil
        invites[known].index = items.count
      } else {
        invites.append((call, items.count))
      }
    }

    mutating func clear() {
      items.removeAll(keepingCapacity: true)
      bytes = 0
      invites.removeAll(keepingCapacity: true)
    }
  }
  /// One for each edge that had something in the last turn, or has in this one.
  private var parcels: [Parcel] = []
  /// Which of them was used last.
  private var latest = 0
  /// Messages that are ready: full parcels, and messages that are not for edges.
  private var ready: [OutgoingMessage] = []
  private let subjects: Subjects
  /// The most bytes of one message. A server's default limit is 1 MiB, and one description may have 64 kB.
  package static let batchBytesMax = 384 * 1024

  package init(subjects: Subjects) { self.subjects = subjects }

  /// - Parameter ringsSince: when an edge received the `place`, for an invite of a call that was just placed. Only the
  ///   last invite of a call to one edge keeps it.
  package mutating func add(
    _ session: SessionRef, _ body: EdgeItem.Body, ringsSince: Timestamp? = nil
  ) {
    let size = Self.roughBytes(body)
    let index = parcel(for: session.edge)
    if parcels[index].bytes + size > Self.batchBytesMax { cut(index) }
    parcels[index].add(
      EdgeItem(session: session.number, body: body, ringsSince: ringsSince), bytes: size)
  }

  private mutating func parcel(for edge: UInt64) -> Int {
    if latest < parcels.count, parcels[latest].edge == edge { return latest }
    if let known = parcels.firstIndex(where: { $0.edge == edge }) {
      latest = known
    } else {
      latest = parcels.count
      parcels.append(Parcel(edge: edge, subject: subjects.replies(to: edge)))
    }
    return latest
  }

  package mutating func add(_ message: OutgoingMessage) { ready.append(message) }

  /// All messages, in order per edge. Leaves the outbox empty.
  /// - Parameter local: takes what is for the edge of this process.
  package mutating func drain(local: LocalExchange? = nil) -> [OutgoingMessage] {
    parcels.removeAll { $0.items.isEmpty }
    for index in parcels.indices {
      if local?.offer(parcels[index].items, to: parcels[index].edge) ?? false {
        parcels[index].clear()
      } else {
        cut(index)
      }
    }
    var messages: [OutgoingMessage] = []
    swap(&messages, &ready)
    return messages
  }

  package var isEmpty: Bool { ready.isEmpty && parcels.allSatisfy { $0.items.isEmpty } }

  private mutating func cut(_ index: Int) {
    let bytes = ClusterCodec.encode(EdgeBatch(items: parcels[index].items))
    ready.append(OutgoingMessage(subject: parcels[index].subject, bytes: bytes))
    parcels[index].clear()
  }

  /// Counts the parts that can be large; the constants allow for the rest.
  private static func roughBytes(_ body: EdgeItem.Body) -> Int {
    if case .reply(_, .history(let page)) = body {
      return page.items.reduce(256) {
        $0 + 160 + 2 * $1.entry.peer.utf8.count + $1.entry.peerName.utf8.count
          + $1.entry.callee.utf8.count + $1.entry.deviceName.utf8.count
          + $1.entry.divertedBy.utf8.count
      }
    }
    switch body {
    case .reply(_, .app(.calls(let list))): return 256 + 1024 * list.calls.count
    case .reply(_, .app(.user(let user))):
      return 256 + 1024 * user.calls.count + 512 * user.devices.count
    case .reply(_, .calls(let live)): return 256 + 512 * (live.placed.count + live.received.count)
    default: break
    }
    if case .visit(_, let answer) = body { return 256 + 2048 * answer.devices.count }
    guard case .delivery(let delivery) = body else { return 256 }
    func bytes(_ signals: [Signal]) -> Int {
      signals.reduce(0) { $0 + $1.body.utf8.count + 16 }
    }
    switch delivery.event {
    case .invite(let invite):
      let headers = invite.headers.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count + 8 }
      let texts = invite.description.utf8.count + invite.pushData.utf8.count
      return 512 + texts + headers + bytes(invite.signals)
    case .answered(let answered):
      return 512 + answered.description.utf8.count + bytes(answered.signals)
    case .signal(let signal): return 256 + signal.body.utf8.count
    case .moved(let moved): return 512 + moved.description.utf8.count
    case .ringing, .ringsUntil, .stop, .transfer: return 512
    }
  }
}

/// Commands that arrive before their shard serves.
///
/// A retransmitted command replaces the earlier one, at its new place: when a new owner requests sessions, each edge
/// retransmits everything unanswered in the right order, while what arrived before may lack its beginning, which went
/// to the former owner.
struct CommandQueue {
  private struct Key: Hashable {
    var session: SessionRef
    var request: UInt64
  }
  /// nil: replaced by a retransmission.
  private var commands: [Command?] = []
  private var places: [Key: Int] = [:]

  /// Includes replaced commands.
  var count: Int { commands.count }
  private(set) var bytes = 0

  /// - Parameter bytes: about how many it has on the bus.
  mutating func append(_ command: Command, bytes: Int) {
    self.bytes += bytes
    if command.request != 0 {
      let key = Key(session: command.session, request: command.request)
      if let former = places.updateValue(commands.count, forKey: key) { commands[former] = nil }
    }
    commands.append(command)
  }

  /// All commands, in order. Leaves the queue empty.
  mutating func takeAll() -> [Command] {
    defer { self = CommandQueue() }
    return commands.compactMap { $0 }
  }
}
