package import CallBus
package import CallCore

/// The simulated server: messages, journals and buckets for all nodes of a world.
package final class SimNATS: @unchecked Sendable {
  struct Subscription {
    var id: UInt64
    var link: SimLink
    var filter: SubjectFilter
    var queue: String?
    var handler: (BusMessage) -> Void
  }

  /// Hooks for checkers. Unless stated otherwise they are called at the server, in the order of its
  /// events.
  package struct Observers {
    /// A node starts an append. Called on the node.
    package var appendStarted: [(_ node: SimNode, _ shard: Int, _ bytes: [UInt8]) -> Void] = []
    /// An append was stored and is valid.
    package var appended: [(_ node: SimNode, _ shard: Int, StoredRecord) -> Void] = []
    /// An append was stored that follows a record which the journal does not have.
    package var appendedBehindGap: [(_ node: SimNode, _ shard: Int, StoredRecord) -> Void] = []
    /// A node learns the result of an append, or the journal's end. Called on the node.
    package var appendKnown: [(_ node: SimNode, _ shard: Int, _ sequence: UInt64) -> Void] = []
    package var purged: [(_ shard: Int, _ through: UInt64) -> Void] = []
    package var written: [(_ bucket: String, KeyValueEntry) -> Void] = []
    /// A write to a bucket was stored. Called after `written`.
    package var put: [(BucketPut) -> Void] = []
    /// A bucket's present entry is from a write that its live writer gave up, before or after it was
    /// stored.
    package var unconfirmed: [(_ node: SimNode, _ bucket: String, _ key: String) -> Void] = []
    /// A compare-and-set was stored although another came first.
    package var raced: [(_ bucket: String, _ key: String) -> Void] = []
    /// The work queue has a new push job. `node` sent it, and another node may have decided it.
    package var jobAdded: [(_ node: SimNode, _ bytes: [UInt8]) -> Void] = []
    package var jobDone: [(_ bytes: [UInt8]) -> Void] = []
    /// The stream of call records has a new message.
    package var recorded: [(_ bytes: [UInt8]) -> Void] = []
    /// A user's history has a new message.
    package var remembered: [(UserKey, _ number: UInt64, _ bytes: [UInt8]) -> Void] = []
    /// A stream of what is kept for apps has a new message.
    package var keptForApps: [(_ stream: AppStreamKind, _ bytes: [UInt8]) -> Void] = []
    /// A node publishes a message. Called on the node, before any fault.
    package var published: [(_ node: SimNode, OutgoingMessage) -> Void] = []
    /// A message arrives at a node. Called on the node, before its handler.
    package var delivered: [(_ node: SimNode, BusMessage) -> Void] = []
  }

  package struct BucketPut {
    package var node: SimNode
    package var bucket: String
    package var key: String
    /// The revision that its writer expected.
    package var expected: UInt64?
    package var isRemoval: Bool
    /// Whether it was stored although another write came first.
    package var raced: Bool
  }

  package let world: SimWorld
  package var faults = SimNetworkFaults.none
  package var observers = Observers()
  package var store: SimStore
  /// The work queue. Like the store, it survives a restart.
  package private(set) lazy var work = SimWork(self)
  /// The stream of call records, which survives a restart as well.
  var records = SimRecords()
  /// The histories of users, which survive a restart as well.
  var histories = SimHistories()
  var appStreams = SimAppStreams()
  private var downUntil = Timestamp(microseconds: 0)
  package var isDown: Bool { world.now < downUntil }
  package var tamper = SimTamper()

  /// By subject; those with a wildcard under "".
  private var subscriptions: [String: [Subscription]] = [:]
  private(set) var links: [SimLink] = []
  private var lastID: UInt64 = 0
  var random: SimRandom

  // The state that the store's side keeps (`SimNATS+Store`).
  var watches: [SimWatch] = []
  /// Which records of each journal are valid, as every reader sees it.
  var chains: [Int: JournalChain] = [:]
  /// Each journal's end before its last record.
  var formerEnd: [Int: StoredRecord] = [:]
  /// For each key, the revision before the last write, and the time of that write.
  var lastPuts: [String: (former: UInt64, at: Timestamp)] = [:]

  package init(_ world: SimWorld) {
    self.world = world
    random = world.fork("nats")
    store = SimStore(shardsShareSequence: random.chance(0.5))
  }

  package func connect(node: SimNode) -> SimBus {
    let link = SimLink(self, node, number: links.count)
    links.append(link)
    return SimBus(link)
  }

  func hop() -> Span { random.span(faults.hopShortest, faults.hopLongest) }

  func newID() -> UInt64 {
    lastID += 1
    return lastID
  }

  // MARK: Messages

  func subscribe(
    _ link: SimLink, _ subject: String, queue: String?, id: UInt64,
    _ handler: @escaping (BusMessage) -> Void
  ) {
    let subscription = Subscription(
      id: id, link: link, filter: SubjectFilter(subject), queue: queue, handler: handler)
    subscriptions[Self.key(of: subject), default: []].append(subscription)
  }

  private static func key(of subject: String) -> String {
    let isWild = subject.utf8.contains { $0 == UInt8(ascii: "*") || $0 == UInt8(ascii: ">") }
    return isWild ? "" : subject
  }

  func unsubscribe(_ subject: String, id: UInt64) {
    remove(under: Self.key(of: subject)) { $0.id == id }
  }

  func forget(subscriptionsOf link: SimLink) {
    for key in Array(subscriptions.keys) { remove(under: key) { $0.link === link } }
  }

  private func remove(under key: String, _ isMeant: (Subscription) -> Bool) {
    subscriptions[key]?.removeAll(where: isMeant)
    if subscriptions[key]?.isEmpty ?? false { subscriptions[key] = nil }
  }

  /// Routes a message to all plain subscriptions, and to one of each queue group.
  func route(_ message: OutgoingMessage, from publisher: Int) {
    var groups: [(String, [Subscription])] = []
    var count = 0
    func add(_ subscription: Subscription) {
      count += 1
      guard let queue = subscription.queue else {
        return hand(message, to: subscription, from: publisher)
      }
      if let index = groups.firstIndex(where: { $0.0 == queue }) {
        groups[index].1.append(subscription)
      } else {
        groups.append((queue, [subscription]))
      }
    }
    for subscription in subscriptions[message.subject] ?? [] { add(subscription) }
    for subscription in subscriptions[""] ?? []
    where subscription.filter.matches(message.subject) {
      add(subscription)
    }
    for (_, members) in groups {
      hand(message, to: members[random.below(members.count)], from: publisher)
    }
    if count == 0, let inbox = message.replyTo {
      for subscription in subscriptions[inbox] ?? [] {
        subscription.link.reply {
          subscription.handler(BusMessage(subject: SimBus.noResponders, bytes: []))
        }
      }
    }
  }

  private func hand(_ message: OutgoingMessage, to subscription: Subscription, from publisher: Int)
  {
    let link = subscription.link
    link.deliver(SimLink.Lane(publisher: publisher, subject: message.subject)) { [unowned self] in
      let arrived = BusMessage(
        subject: message.subject, replyTo: message.replyTo, bytes: message.bytes)
      for look in observers.delivered { look(link.node, arrived) }
      subscription.handler(arrived)
    }
  }

  // MARK: Faults

  /// Restarts the server. It keeps all that it had acknowledged.
  package func restart(downFor span: Span) {
    world.count("fault.store restart")
    kill(downFor: span)
  }

  /// Kills the server: every connection breaks, and nothing connects until it is back.
  package func kill(downFor span: Span) {
    world.incident("nats", "down for \(span.microseconds / 1000) ms")
    downUntil = max(downUntil, world.now + span)
    for link in links where !link.isClosed {
      link.cut(until: world.now + span, notice: hop())
    }
    world.schedule(at: downUntil) { [unowned self] in
      if !isDown { world.incident("nats", "up") }
    }
  }

  /// Stops the server's process. Connections stay open until nodes close them after `timeout` of
  /// silence; what is in flight then is lost, and new connections are not served before the process
  /// continues.
  package func freeze(for span: Span, timeout: Span) {
    world.incident("nats", "stopped for \(span.microseconds / 1000) ms")
    for link in links where !link.isClosed {
      if span < timeout {
        link.stall(until: world.now + span)
      } else {
        link.cut(until: world.now + span, notice: timeout)
      }
    }
  }

  /// Cuts each node off from the server, and so from the others. A node detects it after `notice`.
  package func cut(_ nodes: [SimNode], for span: Span, notice: Span) {
    for link in links(of: nodes) {
      world.incident(link.node.name, "cut off for \(span.microseconds / 1000) ms")
      link.cut(until: world.now + span, notice: notice)
    }
  }

  /// Delays everything that these nodes send or receive.
  package func stall(_ nodes: [SimNode], for span: Span) {
    for link in links(of: nodes) {
      world.incident(link.node.name, "line stalls for \(span.microseconds / 1000) ms")
      link.stall(until: world.now + span)
    }
  }

  private func links(of nodes: [SimNode]) -> [SimLink] {
    links.filter { link in nodes.contains { $0 === link.node } }
  }

  /// When a node was last cut off; `until` is nil while it is. nil: it never was.
  package func absence(of node: SimNode) -> (from: Timestamp, until: Timestamp?)? {
    links.first { $0.node === node }?.absence
  }

  /// Ends all faults. Messages in flight still arrive.
  package func heal() {
    faults = .none
    downUntil = min(downUntil, world.now)
    for link in links where !link.isClosed { link.heal() }
  }

  package func tearDown() {
    for link in links { link.close() }
    links.removeAll()
    watches.removeAll()
    subscriptions.removeAll()
    observers = Observers()
  }
}
