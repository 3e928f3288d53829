package import CallCore

/// The number of a connection in its pool, never reused.
package struct APNsConnectionID: Hashable, Sendable, Comparable, CustomStringConvertible {
  package let number: UInt64
  package init(_ number: UInt64) { self.number = number }
  package static func < (a: Self, b: Self) -> Bool { a.number < b.number }
  package var description: String { "\(number)" }
}

/// The number of a push in its pool.
package typealias APNsPushKey = UInt64

/// The state of one connection: whether it takes pushes, how many, and its open streams. Does no I/O.
///
/// Until APNs accepts the first push it opens one stream at a time, whatever the peer allows: APNs verifies the
/// provider token first.
package struct APNsConnectionMachine: Sendable {
  package enum Phase: Sendable, Equatable {
    /// Name lookup, TCP and TLS. Becomes: awaitingSettings, or it ends.
    case connecting(until: Timestamp)
    /// Waits for the first SETTINGS frame: HTTP/2 assumes 100 streams before it, but APNs allows 1. Becomes: probing,
    /// or it ends.
    case awaitingSettings(until: Timestamp)
    /// One stream at a time. Becomes: open, draining, or it ends.
    case probing
    /// Becomes: draining, or it ends.
    case open
    /// No new streams. It ends when all are answered, or at this time.
    case draining(until: Timestamp)
  }

  package struct OpenStream: Sendable, Equatable {
    package let push: APNsPushKey
    package let token: APNsTokenMachine.Token
    package let openedAt: Timestamp
    /// The push no longer waits for the answer.
    package var isOverdue = false
  }

  package enum Due: Sendable, Equatable {
    case nothing
    case ping
    case ended(String)
  }

  /// Overdue requests after which a connection is replaced, even if it answers others.
  static let overdueMax = 16
  private static let lastStreamID: UInt32 = 0x7fff_ffff

  package let id: APNsConnectionID
  package let startedAt: Timestamp
  private let limits: APNsLimits
  package private(set) var phase: Phase
  package var tokens = APNsTokenMachine()
  package private(set) var streams: [UInt32: OpenStream] = [:]
  /// SETTINGS_MAX_CONCURRENT_STREAMS, as last received.
  package private(set) var advertised = 0
  /// Whether it gave an answer that does not speak against it.
  package private(set) var hasServed = false
  private var overdue = 0
  private var lastAnswerAt: Timestamp
  /// The start of the current silence.
  private var quietSince: Timestamp
  private var pingedAt: Timestamp?
  private var nextStream: UInt32 = 1

  package init(id: APNsConnectionID, limits: APNsLimits, now: Timestamp) {
    self.id = id
    self.limits = limits
    startedAt = now
    lastAnswerAt = now
    quietSince = now
    phase = .connecting(until: now + limits.connectTimeout)
  }

  // MARK: Capacity

  /// Streams that may be open now.
  package var limit: Int {
    switch phase {
    case .connecting, .awaitingSettings, .draining: 0
    case .probing: min(1, advertised)
    case .open: min(limits.inFlightPerConnection, advertised)
    }
  }

  /// The pushes that it takes now. None while a ping is unanswered, since the connection may be dead.
  package var room: Int {
    guard pingedAt == nil || streams.isEmpty else { return 0 }
    return max(0, limit - streams.count)
  }

  package var isUsable: Bool {
    switch phase {
    case .probing, .open: true
    case .connecting, .awaitingSettings, .draining: false
    }
  }

  package var isDraining: Bool {
    if case .draining = phase { true } else { false }
  }

  // MARK: Events

  /// TLS is up, and the peer chose HTTP/2.
  package mutating func connected(now: Timestamp) {
    guard case .connecting = phase else { return }
    phase = .awaitingSettings(until: now + limits.connectTimeout)
    quietSince = now
  }

  /// - Parameter maxStreams: nil if the frame does not set it.
  package mutating func settings(maxStreams: Int?, now: Timestamp) {
    quietSince = now
    if let maxStreams {
      advertised = max(0, maxStreams)
    } else if case .awaitingSettings = phase {
      advertised = .max
    }
    if case .awaitingSettings = phase { phase = .probing }
  }

  /// Opens a stream. Requires `room`. Returns nil if it has no provider token.
  package mutating func open(
    _ push: APNsPushKey, now: Timestamp, random: inout some RandomNumberGenerator
  ) -> (stream: UInt32, token: APNsTokenMachine.Token)? {
    guard nextStream < Self.lastStreamID,
      let token = tokens.token(now: now, random: &random)
    else { return nil }
    let stream = nextStream
    nextStream += 2
    if streams.isEmpty { quietSince = now }
    streams[stream] = OpenStream(push: push, token: token, openedAt: now)
    return (stream, token)
  }

  /// The stream was answered or reset. Returns nil if there is no such stream.
  package mutating func finished(_ stream: UInt32, answered: Bool, now: Timestamp) -> OpenStream? {
    guard let open = streams.removeValue(forKey: stream) else { return nil }
    if open.isOverdue { overdue -= 1 }
    quietSince = now
    if answered {
      lastAnswerAt = now
    }
    return open
  }

  /// It gave an answer that does not speak against it.
  package mutating func served() { hasServed = true }

  /// A push was accepted.
  package mutating func proven() {
    if case .probing = phase { phase = .open }
  }

  /// The answer of a push is overdue. The stream stays open and counts, since a late answer is still valid and a reset
  /// costs the peer work.
  ///
  /// - Returns: whether the connection should be replaced: it has answered nothing since, or too many requests are
  ///   overdue.
  package mutating func overdue(_ stream: UInt32) -> Bool {
    guard let open = streams[stream], !open.isOverdue else { return false }
    streams[stream]?.isOverdue = true
    overdue += 1
    return lastAnswerAt <= open.openedAt || overdue >= Self.overdueMax
  }

  /// Bytes were received, so the connection is alive.
  package mutating func read(now: Timestamp) {
    quietSince = now
    pingedAt = nil
  }

  /// Opens no new streams from now on. Idempotent.
  package mutating func drain(now: Timestamp) {
    if isDraining { return }
    phase = .draining(until: now + limits.drainGrace)
  }

  /// Closes and returns the streams above `last`, newest first. The peer has not processed them and never will.
  package mutating func neverSeen(after last: UInt32) -> [OpenStream] {
    let ids = streams.keys.filter { $0 > last }.sorted(by: >)
    return ids.compactMap { id in
      let open = streams.removeValue(forKey: id)
      if open?.isOverdue == true { overdue -= 1 }
      return open
    }
  }

  /// The open streams of an ended connection, newest first.
  package var lost: [OpenStream] {
    streams.keys.sorted(by: >).compactMap { streams[$0] }
  }

  package mutating func tick(now: Timestamp) -> Due {
    switch phase {
    case .connecting(let until):
      return now >= until ? .ended("connecting took too long") : .nothing
    case .awaitingSettings(let until):
      return now >= until ? .ended("no SETTINGS frame came") : .nothing
    case .draining(let until):
      if streams.isEmpty { return .ended("drained") }
      if now >= until { return .ended("draining took too long") }
    case .probing, .open: break
    }
    if let pingedAt {
      return now - pingedAt >= limits.pingTimeout ? .ended("a ping was not answered") : .nothing
    }
    let expectsAnswer = streams.count > overdue
    let silenceMax = expectsAnswer ? limits.quietBeforePing : limits.idleBeforePing
    guard now - quietSince >= silenceMax else { return .nothing }
    pingedAt = now
    return .ping
  }
}
