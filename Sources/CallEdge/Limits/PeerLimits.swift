public import CallCore

/// The limits on the use of an edge by its peers, known or not: in bytes, count or time for every way in.
/// `docs/operations.md` has the same table, with the counter of each limit.
public struct PeerLimits: Sendable, Equatable {
  public init() {}

  // MARK: Connections

  /// Connections in all. Policy: refuse. `callnode` derives it from the limit of open files.
  public var connectionsMax = 100_000
  /// Connections of one address (IPv6: of one /64). Policy: refuse.
  public var connectionsPerAddress = 1000
  /// Connections on which no device has attached; nil: half of `connectionsMax`. Policy: close the oldest if it
  /// is older than `unattachedKept`; otherwise refuse the new one.
  public var unattachedMax: Int?
  /// How long a connection is kept on which no device has attached, however many new ones come.
  public var unattachedKept: Span = .seconds(1)
  /// Refused connections of one event loop that get an answer. Policy: close further ones without one.
  public var refusalsToldPerLoop = 16
  /// A device must attach within this time. Policy: close with 4003.
  public var attachTimeout: Span = .seconds(10)

  // MARK: Addresses

  /// HTTP requests without a credential, WebSocket handshakes among them, of one address in a second on average; four
  /// times as many at once. Policy: refuse with 429, and read nothing more from the connection for a second.
  public var requestsPerAddress = 100
  /// Tokens and push capabilities of one address that are refused, in a minute; as many at once.
  /// Policy: answer bad ones with 429; good ones are not concerned, as far as `suspectVerifications` go.
  public var failedAuthsPerAddress = 60
  /// Credentials that are verified in a second for all addresses together that have too many refused ones. Policy:
  /// refuse with 429 before any signature is verified.
  public var suspectVerifications = 500
  /// Addresses whose rates are counted; twice as many at most. Policy: forget the rates of those silent for
  /// longest, and count them.
  public var addressRatesMax = 50_000
  /// Users (or devices, where the credential is a device's) whose rates of HTTP requests are counted; twice as
  /// many at most. Policy: forget the rates of those silent for longest, and count them.
  public var requestRatesMax = 50_000
  /// Bytes of a PROXY header after its first 16. Policy: close.
  public var proxyHeaderBytesMax = 1024
  /// Bytes of a TLS handshake that a peer may send. Policy: close.
  public var handshakeBytesMax = 32_768

  // MARK: HTTP

  /// Time until a request has arrived in full, from the connection's acceptance (a TLS handshake included) or from
  /// the request's head; and until the peer has taken an answer. Policy: close.
  public var requestTimeout: Span = .seconds(10)
  /// A connection without a request is closed after this time. Longer than balancers keep idle connections (60 s with
  /// nginx and ALB): one that sends a request on a connection that closes at that moment answers 502.
  public var keepAliveTimeout: Span = .seconds(75)
  /// Requests of one connection that were read and not answered. Policy: close.
  public var pipelinedRequestsMax = 64
  /// Bytes of a request's body. Policy: refuse with 413.
  public var requestBodyBytesMax = 65_536

  // MARK: WebSocket

  /// Bytes of a message. Policy: skip the message and refuse it. In JSON an attached device may send six times as
  /// many bytes, to allow for escapes: see `DeviceCodec.frameBytesMaximum(protobufBytes:)`.
  public var frameBytesMax = 131_072
  /// Bytes of a message before the attach: a token has 4096 bytes, and six times as many with escapes.
  public var unattachedFrameBytesMax = 32_768
  /// Bytes of a message that is skipped. Policy: close with 1009.
  public var skippedBytesMax = 1_048_576
  /// Frames of one message. Policy: close with 1009.
  public var fragmentsMax = 1024
  /// Time from the beginning of a message to its end. Policy: close with 4010.
  public var messageTimeout: Span = .seconds(30)
  /// Bytes of messages that have arrived in part, of all sessions of one event loop. Policy: close the connections
  /// that hold most.
  public var unfinishedBytesPerLoop = 67_108_864
  /// Pongs of one connection that the socket has not taken. Policy: answer only the latest of further pings
  /// (RFC 6455, 5.5.3).
  public var pongsWaitingMax = 16
  /// Frames that could not be read, and refused attaches. One is forgiven each minute. Policy: close with
  /// 4004.
  public var badFramesMax = 10
  /// Commands, pings and pongs in a row that exceed the rate. Policy: close with 4006.
  public var refusalsMax = 200
  /// Bytes that are read and discarded after the close frame, or of a refused request's body: a peer that is
  /// disconnected while it sends never reads the reason. Policy: disconnect.
  public var lingerBytesMax = 16_777_216

  // MARK: Slow readers

  /// Bytes that wait for one device. Policy: close with 4005.
  public var outboundBytesMax = 1_048_576
  /// Bytes that wait for a device from which on it counts as slow.
  public var outboundBytesSlow = 65_536
  /// Bytes that wait for all slow devices of one event loop. Policy: disconnect those for which most waits.
  public var outboundBytesPerLoop = 67_108_864

  /// Connections of one event loop on which no device has attached.
  func unattachedMax(loops: Int) -> Int {
    max(1, (unattachedMax ?? connectionsMax / 2) / max(1, loops))
  }
}

/// Why a connection is refused.
package enum ConnectionRefusal: String, Error, CaseIterable, Sendable {
  /// There are `connectionsMax`.
  case all
  /// There are `connectionsPerAddress` of its address.
  case address
  /// There are `unattachedMax` on which no device has attached: it is a new one, or the oldest of these, which
  /// was closed.
  case unattached
  /// The process has no file descriptor left.
  case descriptors
}

/// A limit that a peer may reach on a connection that was taken.
package enum PeerLimit: String, CaseIterable, Sendable {
  case proxyHeader = "proxy_header"
  case noTLS = "no_tls"
  case handshakeBytes = "handshake_bytes"
  case pipelinedRequests = "pipelined_requests"
  case requestTimeout = "request_timeout"
  case unreadAnswer = "unread_answer"
  case requestsPerAddress = "requests_per_address"
  case failedAuthsPerAddress = "failed_auths_per_address"
  case controlFrames = "control_frames"
  case pongsWaiting = "pongs_waiting"
  case messageTimeout = "message_timeout"
  case unfinishedBytes = "unfinished_bytes"
  case outboundBytes = "outbound_bytes"
  case lingerBytes = "linger_bytes"
}
