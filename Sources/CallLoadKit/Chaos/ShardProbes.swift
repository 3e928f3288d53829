import CallClient
import CallCore

/// Measures from outside, through the edges as devices do, how long shards give no answer.
///
/// Each shard has a user of its own, with a session at each edge. During a fault the shards concerned are
/// asked every 25 ms, and less often the longer it takes (at intervals of a fortieth of that time).
final class ShardProbes {
  private struct Watch {
    var fault: ChaosFault
    let since: Timestamp
    var missing: [Int: Missing]
    /// In a planned change, which is watched to its end: the longest wait of any question, by shard.
    var pauses: [Int: Span] = [:]
    let isPlanned: Bool
    /// The planned change is done, and no more questions are asked.
    var isOver = false
    var lastAsked: Timestamp
    var isSlow = false
  }

  private struct Missing {
    /// The edges through each of which it must answer; empty: any one.
    var edges: Set<Int>
    let since: Timestamp
  }

  enum Finding {
    /// A shard answers again; how long after the fault.
    case answered(shard: Int, Span)
    case complete(longest: Span)
    /// The sessions of shards that have not answered for `longWait`.
    case slow([String])
    /// The same after `timeout`, when the watch ends.
    case gaveUp([String])
    /// A planned change is over: the longest wait for each of its shards.
    case paused([Int: Span])
  }

  static let timeout: Span = .seconds(60)
  /// Longer than any fault should take.
  static let longWait: Span = .seconds(20)

  private let loop: any DeviceLoop
  private let shardCount: Int
  /// The interval of questions to a shard.
  private static let cadence: Span = .milliseconds(25)
  private var sessions: [[ProbeSession]] = []
  private var watches: [Int: Watch] = [:]
  private var random: SplitMix64
  private var turn = 0
  private var isRunning = false
  var onFinding: (ChaosFault, Finding) -> Void = { _, _ in }

  /// - Throws: what minting a token threw.
  init(
    options: LoadOptions, shardCount: Int, loop: any DeviceLoop, network: any DeviceNetwork
  ) throws {
    self.loop = loop
    self.shardCount = shardCount
    self.random = SplitMix64(seed: options.ownSeed ^ 0x70_726f_6265)
    let users = Self.users(app: options.app, shardCount: shardCount)
    for (shard, user) in users.enumerated() {
      sessions.append(
        try options.edges.indices.map { edge in
          let session = ProbeSession(
            edge: edge, url: options.edges[edge], user: user,
            token: try options.mintToken(user, "probe\(edge)"), loop: loop, network: network)
          session.onAnswer = { [weak self] at in self?.answered(shard, edge, askedAt: at) }
          return session
        })
    }
  }

  /// Users of which each has another shard.
  static func users(app: String, shardCount: Int) -> [String] {
    var found: [Int: String] = [:]
    var number = 0
    while found.count < shardCount {
      let name = "probe-\(number)"
      number += 1
      let shard = ShardHash.shard(of: UserKey(app: app, user: name), count: shardCount)
      if found[shard] == nil { found[shard] = name }
    }
    return (0..<shardCount).map { found[$0] ?? "" }
  }

  func start() {
    guard !isRunning else { return }
    isRunning = true
    tick()
  }

  func stop() {
    isRunning = false
    for session in sessions.joined() { session.stop() }
  }

  // MARK: Watches

  /// - Parameter edges: those through each of which every shard must answer; empty: any one.
  func watch(_ fault: ChaosFault, since: Timestamp, through edges: Set<Int>) {
    watches[fault.id] = Watch(
      fault: fault, since: since,
      missing: Dictionary(
        uniqueKeysWithValues: fault.shards.map { ($0, Missing(edges: edges, since: since)) }),
      isPlanned: fault.kind.isPlanned, lastAsked: .zero)
    if fault.shards.isEmpty { finish(fault.id, .complete(longest: .zero)) }
  }

  func isAsking(_ shard: Int, for fault: Int) -> Bool { watches[fault]?.missing[shard] != nil }

  func widen(_ fault: Int, by more: [Int], since: Timestamp) {
    for shard in more { watches[fault]?.missing[shard] = Missing(edges: [], since: since) }
  }

  /// The planned change is done. The watch ends with the last answer.
  func finishPlanned(_ fault: Int) { watches[fault]?.isOver = true }

  private func finish(_ id: Int, _ finding: Finding) {
    guard let watch = watches.removeValue(forKey: id) else { return }
    onFinding(watch.fault, finding)
  }

  private func answered(_ shard: Int, _ edge: Int, askedAt: Timestamp) {
    let now = loop.now
    for (id, watch) in watches {
      guard var asked = watch.missing[shard], asked.since <= askedAt else { continue }
      if watch.isPlanned {
        watches[id]?.pauses[shard] = max(watch.pauses[shard] ?? .zero, now - askedAt)
        continue
      }
      asked.edges.remove(edge)
      watches[id]?.missing[shard] = asked.edges.isEmpty ? nil : asked
      guard asked.edges.isEmpty else { continue }
      onFinding(watch.fault, .answered(shard: shard, now - asked.since))
      if watches[id]?.missing.isEmpty == true { finish(id, .complete(longest: now - watch.since)) }
    }
  }

  // MARK: Asking

  private func tick() {
    guard isRunning else { return }
    let now = loop.now
    turn += 1
    if turn % 4 == 0 {
      for session in sessions.joined() where !session.isAttached { session.tick() }
    }
    for id in watches.keys.sorted() { step(id, at: now) }
    loop.schedule(at: now + Self.cadence) { [weak self] in self?.tick() }
  }

  private func step(_ id: Int, at now: Timestamp) {
    guard let watch = watches[id] else { return }
    let age = now - watch.since
    if watch.isPlanned {
      guard !watch.isOver else { return finishWhenAnswered(watch, at: now) }
    } else if Self.timeout < age {
      return finish(id, .gaveUp(accounts(watch)))
    } else if Self.longWait < age, !watch.isSlow {
      watches[id]?.isSlow = true
      onFinding(watch.fault, .slow(accounts(watch)))
    }
    let step =
      watch.isPlanned ? Self.cadence : max(Self.cadence, Span(microseconds: age.microseconds / 40))
    guard watch.lastAsked + step <= now + .milliseconds(1) else { return }
    watches[id]?.lastAsked = now
    for (shard, asked) in watch.missing { ask(shard, through: asked.edges) }
  }

  private func accounts(_ watch: Watch) -> [String] {
    watch.missing.sorted { $0.key < $1.key }.flatMap { shard, asked in
      sessions[shard].filter { asked.edges.isEmpty || asked.edges.contains($0.edge) }.map {
        "shard \(shard) through edge-\($0.edge + 1): \($0.account)"
      }
    }
  }

  private func ask(_ shard: Int, through edges: Set<Int>) {
    let candidates = sessions[shard].filter { edges.isEmpty || edges.contains($0.edge) }
    for offset in candidates.indices {
      if candidates[(turn + offset) % candidates.count].ask(&random) { return }
    }
  }

  /// Ends the watch of a planned change once no question waits for an answer, or after 6 s.
  private func finishWhenAnswered(_ watch: Watch, at now: Timestamp) {
    let waiting = watch.missing.keys.contains { shard in
      sessions[shard].contains { session in
        session.oldestWait.map { watch.since <= $0 && now < $0 + .seconds(6) } ?? false
      }
    }
    if !waiting { finish(watch.fault.id, .paused(watch.pauses)) }
  }
}
