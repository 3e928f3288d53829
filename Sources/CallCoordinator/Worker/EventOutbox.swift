package import CallCore
internal import CallWire

/// The events of a worker's shards that are to be stored for webhooks, in one `StreamOutbox` for each app: an app's
/// events have a subject of their own.
///
/// The events of a call that one turn names are in one message. So a new owner, which names all events of a call at
/// once, stores them together, and what is late of the former owner cannot come first in another order.
package struct EventOutbox {
  package struct Item: Sendable, Equatable {
    package var call: ShardCall
    package var kinds: AppEventKinds
    package init(call: ShardCall, kinds: AppEventKinds) {
      self.call = call
      self.kinds = kinds
    }
  }

  package typealias Lane = StreamOutbox<Item>

  /// How long the first event waits for others.
  package static let delay = Span.milliseconds(20)

  private var lanes: [String: Lane] = [:]
  package private(set) var nextDeadline = Timestamp.distantFuture
  package private(set) var count = 0

  package init() {}

  package mutating func add(
    _ item: Item, app: String, now: Timestamp, isWanted: (Item) -> Bool
  ) {
    lanes[app, default: Lane(delay: Self.delay)].add(item, now: now)
    lanes[app]?.compact(isWanted)
    survey()
  }

  /// The messages that are due, to be sent now, sorted by app.
  /// - Parameter events: those of an item; none where none are wanted any more.
  package mutating func next(
    now: Timestamp, events: (Item) -> [AppEvent]
  ) -> [(app: String, message: Lane.Message)] {
    guard nextDeadline <= now else { return [] }
    var messages: [(app: String, message: Lane.Message)] = []
    for app in lanes.keys.sorted() {
      var found: [AppEvent] = []
      let message = lanes[app]?.next(
        now: now,
        collect: { item in
          let events = events(item)
          found += events
          return events.isEmpty ? nil : events.reduce(0) { $0 + $1.approximateBytes }
        }, encode: { ClusterCodec.encode(found) })
      if let message { messages.append((app, message)) }
    }
    survey()
    return messages
  }

  /// The stream has answered, or has not in time.
  /// - Returns: the items whose events are stored now.
  package mutating func answered(
    _ app: String, _ number: UInt64, isStored: Bool, now: Timestamp
  ) -> [Item] {
    let stored = lanes[app]?.answered(number, isStored: isStored, now: now) ?? []
    survey()
    return stored
  }

  /// An app's lane stays: its numbers go on, since they identify messages.
  private mutating func survey() {
    nextDeadline = lanes.values.reduce(.distantFuture) { min($0, $1.nextDeadline) }
    count = lanes.values.reduce(0) { $0 + $1.count }
  }
}

extension AppEvent {
  /// About how many bytes it has in a message.
  fileprivate var approximateBytes: Int {
    96 + callee.app.utf8.count + callee.user.utf8.count + caller.approximateBytes
      + (by?.approximateBytes ?? 0)
  }
}
