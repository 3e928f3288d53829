package import CallCore

/// A connection of a pool, by number. Never used twice.
package struct APNsConnectionID: Hashable, Sendable, Comparable, CustomStringConvertible {
  package let number: UInt64
  package init(_ number: UInt64) { self.number = number }
  package static func < (a: Self, b: Self) -> Bool { a.number < b.number }
  package var description: String { "\(number)" }
}

/// A push of a pool, by number.
package typealias APNsPushKey = UInt64

/// One connection: whether it takes pushes, how many, and what is open on it. Does no I/O.
///
/// Until the first push was accepted there is one stream at a time, whatever the peer allows: with
/// provider tokens APNs wants to see a good one first.
package struct APNsConnectionMachine: Sendable {
  package enum Phase: Sendable, Equatable {
    /// Name, TCP, TLS. Can become: awaitingSettings, or it ends.
    case connecting(until: Timestamp)
    /// HTTP/2 assumes 100 streams before the peer's first SETTINGS frame, and APNs allows 1. Can
    /// become: probing, or it ends.
    case awaitingSettings(until: Timestamp)
    /// One stream at a time. Can become: open, draining, or it ends.
    case probing
    /// Can become: draining, or it ends.
    case open
    /// No new streams. Ends when all are answered, or at the time given.
    case draining(until: Timestamp)
  }

  package struct OpenStream: Sendable, Equatable {
    package let push: APNsPushKey
    package let token: APNsTokenMachine.Token
    package let openedAt: Timestamp
    /// The push waits for it no longer.
    package var isOverdue = false
  }

  package enum Due: Sendable, Equatable {
    case nothing
    case ping
    case ended(String)
  }

  /// Requests without an answer that a connection may hold while it answers others.
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
  package private(set) var answers: UInt64 = 0
  private var overdue = 0
  private var lastAnswerAt: Timestamp
  /// Since when there is nothing to read although something is expected.
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

  // MARK: What it takes

  /// Streams that may be open now.
  package var limit: Int {
    switch phase {
    case .connecting, .awaitingSettings, .draining: 0
    case .probing: min(1, advertised)
    case .open: min(limits.inFlightPerConnection, advertised)
    }
  }

  /// How many pushes it takes now. None while it owes the answer to a ping: it may be dead.
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

  /// - Parameter maxStreams: nil where the frame does not say.
  package mutating func settings(maxStreams: Int?, now: Timestamp) {
    quietSince = now
    if let maxStreams {
      advertised = max(0, maxStreams)
    } else if case .awaitingSettings = phase {
      advertised = .max
    }
    if case .awaitingSettings = phase { phase = .probing }
  }

  /// Opens a stream; only where there is `room`. Nil: it has no provider token to send with.
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

  /// An answer has come, or the stream was reset. Nil: there is no such stream.
  package mutating func finished(_ stream: UInt32, answered: Bool, now: Timestamp) -> OpenStream? {
    guard let open = streams.removeValue(forKey: stream) else { return nil }
    if open.isOverdue { overdue -= 1 }
    quietSince = now
    if answered {
      answers += 1
      lastAnswerAt = now
    }
    return open
  }

  /// A push was accepted.
  package mutating func proven() {
    if case .probing = phase { phase = .open }
  }

  /// A push has waited too long for its answer. The stream stays open and counts: what we never
  /// reset, the peer need not clean up, and a late answer is still an answer.
  ///
  /// - Returns: whether the connection should be replaced: it has answered nothing since, or leaves
  ///   too much unanswered.
  package mutating func overdue(_ stream: UInt32) -> Bool {
    guard let open = streams[stream], !open.isOverdue else { return false }
    streams[stream]?.isOverdue = true
    overdue += 1
    return lastAnswerAt <= open.openedAt || overdue >= Self.overdueMax
  }

  /// Bytes have come: it lives.
  package mutating func read(now: Timestamp) {
    quietSince = now
    pingedAt = nil
  }

  /// No new streams from now on. A second time changes nothing.
  package mutating func drain(now: Timestamp) {
    if isDraining { return }
    phase = .draining(until: now + limits.drainGrace)
  }

  /// The streams above `last`, which the peer has not looked at and never will, newest first. They
  /// are closed.
  package mutating func neverSeen(after last: UInt32) -> [OpenStream] {
    let ids = streams.keys.filter { $0 > last }.sorted(by: >)
    return ids.compactMap { id in
      let open = streams.removeValue(forKey: id)
      if open?.isOverdue == true { overdue -= 1 }
      return open
    }
  }

  /// All that is open, newest first, of a connection that has ended.
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
    let patience = expectsAnswer ? limits.quietBeforePing : limits.idleBeforePing
    guard now - quietSince >= patience else { return .nothing }
    pingedAt = now
    return .ping
  }
}
