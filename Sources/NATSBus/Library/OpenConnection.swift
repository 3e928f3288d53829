internal import CNATS
internal import CallBus

/// Connects to the first of the servers that accepts; blocks. Each has `connectTimeout`; one that greets and then stops
/// answering has twice that and a second.
func openConnection(
  for thread: ConnectionThread, url: String, name: String, lost: String = ""
) throws(ConnectFailure) -> Link {
  let settings = thread.options
  let demandsTLS = settings.access.demandsTLS(of: url)
  var worst: ConnectFailure?
  // One server at a time: the name in a server's certificate must be that server's.
  for server in ServerOrder.drawn(from: url, lost: lost) {
    do throws(ConnectFailure) {
      let options = try ConnectOptions()
      try options.configure(settings, server: server, name: name)
      try options.setAccess(settings.access, server: server, demandsTLS: demandsTLS)
      let watch = HandshakeWatch(server: server, connectTimeout: settings.connectTimeout)
      return try options.connect(LinkState(thread), watch: watch)
    } catch {
      worst = worst.map { $0.outweighs(error) ? $0 : error } ?? error
    }
  }
  throw worst ?? ConnectFailure(NATS_INVALID_ARG)
}

struct ConnectFailure: Error {
  var reason: BusError

  static let silentServer = ConnectFailure(
    reason: .notReady("a nats-server took the connection and then said nothing"))

  /// The server does not accept the credentials.
  var isRefusal: Bool { reason.code.map(BusError.Code.refusals.contains) ?? false }

  /// Among several servers' failures, a refusal is reported first, then one that may pass.
  func outweighs(_ other: Self) -> Bool {
    if isRefusal != other.isRefusal { return isRefusal }
    return reason.isTransient && !other.reason.isTransient
  }
}

extension ConnectFailure {
  /// Transient (`notReady`) if waiting may help: an unreachable server may start, one that refuses stays as it is.
  init(_ status: natsStatus) {
    let code = BusError.Code(status)
    let text = natsErrorText(status)
    switch status {
    case NATS_CONNECTION_AUTH_FAILED, NATS_NOT_PERMITTED:
      reason = .failed("nats-server refuses the credentials: \(text)", code: code)
    case NATS_SECURE_CONNECTION_WANTED:
      reason = .failed(
        "nats-server offers no TLS, and this node is told to use nothing else", code: code)
    case NATS_SECURE_CONNECTION_REQUIRED, NATS_SSL_ERROR:
      reason = .failed("nats-server and this node do not agree on TLS: \(text)", code: code)
    case NATS_PROTOCOL_ERROR, NATS_NO_SERVER_SUPPORT:
      reason = .failed("what answers is no nats-server that this node can use: \(text)", code: code)
    // The library's text may quote what it could not parse, perhaps a password.
    case NATS_ADDRESS_MISSING, NATS_INVALID_ARG:
      reason = .failed(
        "cannot connect to nats-server: not an address that it can be reached at", code: code)
    case NATS_NOT_FOUND, NATS_NO_MEMORY, NATS_FAILED_TO_INITIALIZE:
      reason = .failed("cannot connect to nats-server: \(text)", code: code)
    // The server's error before it closes, which has no number, or an unusable credentials file. A server at its
    // maximum of connections has room when others leave.
    case NATS_ERR where !text.contains("maximum"):
      reason = .failed("cannot connect to nats-server: \(text)", code: code)
    // Includes an unknown host name: it may be registered when the server starts.
    default: reason = .notReady("no nats-server can be reached: \(text)", code: code)
    }
  }
}

/// The library's text for a call that failed on this thread.
func natsErrorText(_ status: natsStatus) -> String {
  var last = NATS_OK
  if let detail = unsafe nats_GetLastError(&last), last == status {
    let text = unsafe String(cString: detail)
    if !text.isEmpty { return withoutCredentials(text: text) }
  }
  return unsafe natsStatus_GetText(status).map { unsafe String(cString: $0) }
    ?? "status \(status.rawValue)"
}

/// The text with everything up to the last `@` of each word replaced by `***`: the library may quote an address.
func withoutCredentials(text: String) -> String {
  guard text.contains("@") else { return text }
  return text.split(separator: " ", omittingEmptySubsequences: false)
    .map { word in word.lastIndex(of: "@").map { "***" + word[$0...] } ?? String(word) }
    .joined(separator: " ")
}
