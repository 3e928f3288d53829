public import CallCore

/// What a simulator does wrong on purpose, and when: the faults of a real APNs and of the network
/// before it (R25 to R34).
public struct APNsScript: Sendable {
  /// All that match a request take effect.
  public var rules: [Rule]
  /// Of whole connections; the first that matches counts.
  public var connections: [ConnectionRule]
  /// For `Rule.share`.
  public var seed: UInt64

  public init(_ rules: [Rule] = [], connections: [ConnectionRule] = [], seed: UInt64 = 1) {
    self.rules = rules
    self.connections = connections
    self.seed = seed
  }

  /// One fault, and the requests it strikes.
  public struct Rule: Sendable {
    public var fault: APNsFault
    /// Connections are counted from 1; nil: all.
    public var connections: ClosedRange<Int>?
    /// Device tokens, in lower case; nil: all.
    public var tokens: Set<String>?
    /// Of the requests that match the rest, the first that is struck, counted from 1.
    public var from: Int
    /// 1: each from there on; 3: each third.
    public var every: Int
    /// At most so often; nil: without end.
    public var times: Int?
    /// Struck with this probability.
    public var share: Double
    /// Only while the server's clock is within; nil: always.
    public var during: Range<Timestamp>?
    /// Counts requests of each connection by itself, not of all together.
    public var perConnection: Bool

    public init(
      _ fault: APNsFault, connections: ClosedRange<Int>? = nil, tokens: Set<String>? = nil,
      from: Int = 1, every: Int = 1, times: Int? = nil, share: Double = 1,
      during: Range<Timestamp>? = nil, perConnection: Bool = false
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
    }
  }

  public struct ConnectionRule: Sendable {
    public var connections: ClosedRange<Int>
    public var fault: APNsConnectionFault
    public init(_ connections: ClosedRange<Int>, _ fault: APNsConnectionFault) {
      self.connections = connections
      self.fault = fault
    }
  }
}

/// What befalls one request.
public enum APNsFault: Sendable, Equatable {
  /// Answered so, whatever the rules say. The device gets nothing.
  case answer(APNsReason, timestamp: Timestamp? = nil)
  /// Answered so much later.
  case delay(Duration)
  /// Held until so many requests are held on the connection, or the first was for so long; then all
  /// of them are dealt with at once.
  case gather(Int, within: Duration, then: Release)
  /// Never answered; the device gets nothing. PINGs are answered.
  case noAnswer
  /// The device gets the push, the sender no answer.
  case deliverWithoutAnswer
  /// RST_STREAM(REFUSED_STREAM): not processed, safe to send again.
  case refuse
  /// So many RST_STREAM with this error code. The device gets nothing.
  case reset(code: UInt32, times: Int = 1)
  case goAway(GoAway)
  /// TCP reset, without a word. The request is not processed.
  case cut
  /// So many SETTINGS that change the limit of streams to and fro; the last restores it.
  case flipSettings(Int)
  /// SETTINGS with this limit of streams, until another.
  case limitStreams(Int)
  /// The answer in an unusual form.
  case shape(APNsResponseShape)

  public enum Release: Sendable, Equatable {
    case inOrder
    case reversed
    /// GOAWAY that names the so-many-th of the held as the last: answers those up to it, drops the
    /// rest. The connection closes when the answers are out.
    case goAway(reason: APNsReason?, answering: Int)
    /// Answers those up to the so-many-th, drops the rest, resets the connection. The devices got all.
    case cut(answering: Int)
  }

  public struct GoAway: Sendable, Equatable {
    public enum Last: Sendable, Equatable {
      /// The request that triggers it is the last to be answered.
      case this
      /// It is the first not to be answered.
      case before
      /// Nothing that is in flight is answered.
      case zero
    }
    public var reason: APNsReason?
    /// Of HTTP/2; 0: no error.
    public var code: UInt32
    public var last: Last
    /// First a GOAWAY that names 2^31-1, and the real one only so much later: in between all is
    /// answered.
    public var warning: Duration?
    /// Once the answers are out: whether the connection is closed; if not, that is left to the client.
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
}

/// What befalls a whole connection.
public enum APNsConnectionFault: Sendable, Equatable {
  /// TCP accepts, TLS never answers.
  case silent
  /// TCP reset as soon as it is accepted.
  case cut
  /// TLS and the first SETTINGS, then no answer to anything, PING neither.
  case blackHole
  /// TLS, then not even SETTINGS.
  case noSettings
}
