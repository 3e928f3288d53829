package import CallCore
internal import CallWire

/// The events of a worker's shards that are to be stored for webhooks, in one `StreamOutbox` for each app: an app's
/// events have a subject of their own.
///
/// The events of a call that one turn names are in one message. So a new owner, which names all events of a call at
/// once, stores them together, and what is late of the former owner cannot come first in another order.
package struct EventOutbox {
  package enum Item: Sendable, Equatable {
    case call(ShardCall, AppEventKinds)
    /// An event of a device, and the token of its effect. The shard keeps no more of it.
    indirect case device(ShardTerm, AppEvent, token: UInt64)

    package var term: ShardTerm {
      switch self {
      case .call(let call, _): call.term
      case .device(let term, _, _): term
      }
    }
  }

  package typealias Lane = StreamOutbox<Item>

  /// How long the first event waits for others.
  package static let delay = Span.milliseconds(20)

  /// By app. A lane stays: its numbers go on, since they identify messages.
  private var lanes: [String: Lane] = [:]
  package private(set) var nextDeadline = Timestamp.distantFuture
  package var count: Int { lanes.values.reduce(0) { $0 + $1.count } }

  package init() {}

  package mutating func add(
    _ item: Item, app: String, now: Timestamp, isWanted: (Item) -> Bool
  ) {
    lanes[app, default: Lane(delay: Self.delay)].add(item, now: now)
    lanes[app]?.compact(isWanted)
    mayBeDue(app)
  }

  /// The messages that are due, to be sent now, sorted by app.
  /// - Parameter events: returns the events of an item; empty where none are wanted.
  package mutating func next(
    now: Timestamp, events: (Item) -> [AppEvent]
  ) -> [(app: String, message: Lane.Message)] {
    guard nextDeadline <= now else { return [] }
    var messages: [(app: String, message: Lane.Message)] = []
    for app in lanes.filter({ $0.value.nextDeadline <= now }).keys.sorted() {
      let message = lanes[app]?.next(now: now) { item in
        let events = events(item)
        return events.isEmpty ? nil : ClusterCodec.encode(events)
      }
      if let message { messages.append((app, message)) }
    }
    nextDeadline = lanes.values.reduce(.distantFuture) { min($0, $1.nextDeadline) }
    return messages
  }

  /// The stream has answered, or has not in time.
  /// - Returns: the items whose events are stored now.
  package mutating func answered(
    _ app: String, _ number: UInt64, isStored: Bool, now: Timestamp
  ) -> [Item] {
    let stored = lanes[app]?.answered(number, isStored: isStored, now: now) ?? []
    mayBeDue(app)
    return stored
  }

  private mutating func mayBeDue(_ app: String) {
    nextDeadline = min(nextDeadline, lanes[app]?.nextDeadline ?? .distantFuture)
  }
}
