public import CallCore

/// The deliberate faults of a simulator and their times: faults of the real APNs and of the network (R25 to R34).
public struct APNsScript: Sendable {
  /// All rules that match a request take effect.
  public var rules: [Rule]
  /// Faults of whole connections, by their numbers from 1. The first that matches a connection takes effect.
  public var connections: [(numbers: ClosedRange<Int>, fault: APNsConnectionFault)]
  /// For `Rule.share`.
  public var seed: UInt64

  public init(
    _ rules: [Rule] = [],
    connections: [(numbers: ClosedRange<Int>, fault: APNsConnectionFault)] = [], seed: UInt64 = 1
  ) {
    self.rules = rules
    self.connections = connections
    self.seed = seed
  }

  /// A fault and the requests that it affects.
  public struct Rule: Sendable {
    public var fault: APNsFault
    /// Connections are counted from 1; nil: all.
    public var connections: ClosedRange<Int>?
    /// Device tokens, in lower case; nil: all.
    public var tokens: Set<String>?
    /// The first request to be struck, counted from 1 among those that match the other conditions.
    public var from: Int
    /// Strikes every so many requests from `from` on; 1: all.
    public var every: Int
    /// The most requests to be struck; nil: no limit.
    public var times: Int?
    /// The probability with which a matching request is struck.
    public var share: Double
    /// Strikes only in this range of the server's clock; nil: always.
    public var during: Range<Timestamp>?
    /// Counts the requests of each connection separately.
    public var perConnection: Bool
    /// Strikes only tokens for which a push was accepted before.
    public var onlyAccepted: Bool

    public init(
      _ fault: APNsFault, connections: ClosedRange<Int>? = nil, tokens: Set<String>? = nil,
      from: Int = 1, every: Int = 1, times: Int? = nil, share: Double = 1,
      during: Range<Timestamp>? = nil, perConnection: Bool = false, onlyAccepted: Bool = false
    ) {
      self.fault = fault
      self.connections = connections
      self.tokens = tokens
      self.from = from
      self.every = max(1, every)
      self.times = times
      self.share = share
      self.during = during
      self.perConnection = perConnection
      self.onlyAccepted = onlyAccepted
    }
  }
}

/// A fault of one request.
public enum APNsFault: Sendable, Equatable {
  /// Answers with this reason, whatever the verdict. The device gets nothing.
  case answer(APNsReason, timestamp: Timestamp? = nil)
  /// Answers this much later.
  case delay(Duration)
  /// Holds requests until the connection holds this many, or the first one was held for this time. Then releases all of
  /// them at once.
  case gather(Int, within: Duration, then: Release)
  /// Never answers. The device gets nothing. PINGs are still answered.
  case noAnswer
  /// The device gets the push, the sender no answer.
  case deliverWithoutAnswer
  /// RST_STREAM(REFUSED_STREAM): not processed, safe to send again.
  case refuse
  /// Sends this many RST_STREAM with this error code. The device gets nothing.
  case reset(code: UInt32, times: Int = 1)
  case goAway(GoAway)
  /// Resets the TCP connection. The request is not processed.
  case cut
  /// Sends this many SETTINGS that change the limit of streams back and forth; the last one restores it.
  case flipSettings(Int)
  /// SETTINGS with this limit of streams, until another.
  case limitStreams(Int)
  /// The answer in an unusual form.
  case shape(APNsResponseShape)

  public enum Release: Sendable, Equatable {
    case inOrder
    case reversed
    /// Sends a GOAWAY whose last stream is that of the given number among the held requests, answers those up to it and
    /// drops the rest. The connection closes after the answers.
    case goAway(reason: APNsReason?, answering: Int)
    /// Answers this many, drops the rest and resets the connection. The devices get all pushes.
    case cut(answering: Int)
  }

  public struct GoAway: Sendable, Equatable {
    public enum Last: Sendable, Equatable {
      /// The request that triggers it is the last to be answered.
      case this
      /// The triggering request is the first that is not answered.
      case before
      /// No request in flight is answered.
      case zero
    }
    public var reason: APNsReason?
    /// The error code of HTTP/2; 0: no error.
    public var code: UInt32
    public var last: Last
    /// Sends a first GOAWAY with 2^31-1, and the real one this much later. In between all requests are answered.
    public var warning: Duration?
    /// Whether to close the connection after the answers; if not, the client has to.
    public var closes: Bool
    /// Closes with a TCP reset.
    public var abruptly: Bool
    public init(
      reason: APNsReason? = nil, code: UInt32 = 0, last: Last = .this, warning: Duration? = nil,
      closes: Bool = true, abruptly: Bool = false
    ) {
      self.reason = reason
      self.code = code
      self.last = last
      self.warning = warning
      self.closes = closes
      self.abruptly = abruptly
    }
  }
}

/// Unusual forms that HTTP/2 allows a response to have.
public struct APNsResponseShape: OptionSet, Sendable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }
  /// The body in two DATA frames.
  public static let splitBody = APNsResponseShape(rawValue: 1 << 0)
  /// HEADERS and DATA padded.
  public static let padding = APNsResponseShape(rawValue: 1 << 1)
  /// The header block in HEADERS and a CONTINUATION.
  public static let continuation = APNsResponseShape(rawValue: 1 << 2)
  /// END_STREAM comes in an empty DATA frame of its own, with status 200 too.
  public static let emptyEnd = APNsResponseShape(rawValue: 1 << 3)
  /// An error asks for a pause of an hour, in `retry-after`, which Apple's documents do not name.
  public static let retryAfterAnHour = APNsResponseShape(rawValue: 1 << 4)
}

/// A fault of a whole connection.
public enum APNsConnectionFault: Sendable, Equatable {
  /// TCP accepts, TLS never answers.
  case silent
  /// Resets the connection as soon as it is accepted.
  case cut
  /// Completes TLS and sends the first SETTINGS, then answers nothing, not even PING.
  case blackHole
  /// Completes TLS and sends nothing, not even SETTINGS.
  case noSettings
}

/// The progress of a script: for each rule, the requests that it matched and those that it struck.
package struct APNsScriptState: Sendable {
  package private(set) var script: APNsScript
  /// By connection, or under 0 for rules that count those of all, then by rule.
  private var seen: [Int: [Int: Int]] = [:]
  private var struck: [Int]
  private var chance: SplitMix64
  /// The tokens for which a push was accepted, where a rule asks for that.
  private var accepted: Set<String> = []

  package init(_ script: APNsScript) {
    self.script = script
    struck = Array(repeating: 0, count: script.rules.count)
    chance = SplitMix64(seed: script.seed)
  }

  /// The faults that strike this request, in the order of the rules.
  package mutating func faults(connection: Int, token: String?, now: Timestamp) -> [APNsFault] {
    if script.rules.isEmpty { return [] }
    var faults: [APNsFault] = []
    for (place, rule) in script.rules.enumerated() {
      if let connections = rule.connections, !connections.contains(connection) { continue }
      if let tokens = rule.tokens, token.map(tokens.contains) != true { continue }
      if let during = rule.during, !during.contains(now) { continue }
      if rule.onlyAccepted, token.map(accepted.contains) != true { continue }
      let number = count(place, connection, rule)
      guard number >= rule.from, (number - rule.from).isMultiple(of: rule.every) else { continue }
      if let times = rule.times, struck[place] >= times { continue }
      if rule.share < 1, Double.random(in: 0..<1, using: &chance) >= rule.share { continue }
      struck[place] += 1
      faults.append(rule.fault)
    }
    return faults
  }

  package mutating func noteAccepted(_ token: String) {
    if script.rules.contains(where: \.onlyAccepted) { accepted.insert(token) }
  }

  package func fault(ofConnection number: Int) -> APNsConnectionFault? {
    script.connections.first { $0.numbers.contains(number) }?.fault
  }

  package mutating func connectionEnded(_ number: Int) { seen[number] = nil }

  private mutating func count(_ place: Int, _ connection: Int, _ rule: APNsScript.Rule) -> Int {
    let group = rule.perConnection ? connection : 0
    let number = (seen[group]?[place] ?? 0) + 1
    seen[group, default: [:]][place] = number
    return number
  }
}
