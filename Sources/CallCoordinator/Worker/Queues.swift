package import CallBus
package import CallCore
package import CallWire

/// Collects what all shards of a worker have for edges in one batch, so that each edge gets one message.
package struct EdgeOutbox: Sendable {
  private struct Parcel {
    var items: [EdgeItem] = []
    var bytes = 0
    /// The index of the last invite of each call that was just placed.
    var invites: [CallID: Int] = [:]

    mutating func add(_ item: EdgeItem, bytes: Int) {
      if item.ringsSince != nil, case .delivery(let delivery) = item.body {
        if let former = invites.updateValue(items.count, forKey: delivery.call) {
          items[former].ringsSince = nil
        }
      }
      items.append(item)
      self.bytes += bytes
    }
  }
  private var parcels: [UInt64: Parcel] = [:]
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
    if var parcel = parcels[session.edge], parcel.bytes + size > Self.batchBytesMax {
      cut(session.edge, &parcel)
      parcels[session.edge] = parcel
    }
    parcels[session.edge, default: Parcel()].add(
      EdgeItem(session: session.number, body: body, ringsSince: ringsSince), bytes: size)
  }

  package mutating func add(_ message: OutgoingMessage) { ready.append(message) }

  /// All messages, in order per edge. Leaves the outbox empty.
  /// - Parameter local: takes what is for the edge of this process.
  package mutating func drain(local: LocalExchange? = nil) -> [OutgoingMessage] {
    for edge in parcels.keys {
      guard var parcel = parcels[edge], !parcel.items.isEmpty else { continue }
      if local?.offer(parcel.items, to: edge) ?? false { continue }
      cut(edge, &parcel)
    }
    parcels.removeAll(keepingCapacity: true)
    defer { ready.removeAll(keepingCapacity: true) }
    return ready
  }

  package var isEmpty: Bool { parcels.isEmpty && ready.isEmpty }

  private mutating func cut(_ edge: UInt64, _ parcel: inout Parcel) {
    ready.append(
      OutgoingMessage(
        subject: subjects.replies(to: edge),
        bytes: ClusterCodec.encode(EdgeBatch(items: parcel.items))))
    parcel = Parcel()
  }

  /// Counts the parts that can be large; the constants allow for the rest.
  private static func roughBytes(_ body: EdgeItem.Body) -> Int {
    guard case .delivery(let delivery) = body else { return 256 }
    func bytes(_ signals: [Signal]) -> Int {
      signals.reduce(0) { $0 + $1.body.utf8.count + 16 }
    }
    switch delivery.event {
    case .invite(let invite):
      let headers = invite.headers.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count + 8 }
      return 512 + invite.description.utf8.count + headers + bytes(invite.signals)
    case .answered(let answered):
      return 512 + answered.description.utf8.count + bytes(answered.signals)
    case .signal(let signal): return 256 + signal.body.utf8.count
    case .ringing, .stop: return 512
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
