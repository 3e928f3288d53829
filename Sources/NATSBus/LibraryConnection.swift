internal import CNATS
internal import CallBus
internal import Glibc

/// Connects to the first of the servers that takes us; blocks. Each has `connectTimeout`, and one that greets
/// and then says nothing more two of them and a second.
func openConnection(
  for thread: ConnectionThread, url: String, name: String, lost: String = ""
) throws(ConnectFailure) -> Link {
  let demandsTLS = thread.options.access.demandsTLS(of: url)
  var worst: ConnectFailure?
  for server in ServerOrder.drawn(from: url, lost: lost) {
    do throws(ConnectFailure) {
      return try openConnection(for: thread, server: server, name: name, demandsTLS: demandsTLS)
    } catch {
      worst = worst.map { $0.outweighs(error) ? $0 : error } ?? error
    }
  }
  throw worst ?? ConnectFailure(reason: connectError(NATS_INVALID_ARG))
}

/// The library is given one server at a time: the name in a server's certificate must be that server's.
///
/// It keeps a reference to the link until it has called the closed handler, its last callback for a
/// connection.
private func openConnection(
  for thread: ConnectionThread, server: String, name: String, demandsTLS: Bool
) throws(ConnectFailure) -> Link {
  var raw: OpaquePointer?
  try check(natsOptions_Create(&raw), "the library does not start")
  guard let options = raw else {
    throw ConnectFailure(reason: .failed("the library does not start"))
  }
  defer { natsOptions_Destroy(options) }
  let state = LinkState(thread)
  let retained = Unmanaged.passRetained(state)
  var connection: OpaquePointer?
  do throws(ConnectFailure) {
    try configure(options, thread.options, server: server, name: name)
    try setAccess(options, thread.options.access, server: server, demandsTLS: demandsTLS)
    try setCallbacks(options, retained.toOpaque())
    let watch = HandshakeWatch(servers: server, connectTimeout: thread.options.connectTimeout)
    let status = natsConnection_Connect(&connection, options)
    watch.end()
    guard status == NATS_OK, let connection else {
      let isRefusal = status == NATS_CONNECTION_AUTH_FAILED || status == NATS_NOT_PERMITTED
      if watch.hasBrokenOff, !isRefusal {
        throw ConnectFailure(
          reason: .notReady("a nats-server took the connection and then said nothing"))
      }
      throw ConnectFailure(reason: connectError(status), isRefusal: isRefusal)
    }
    return Link(state: state, connection: connection)
  } catch {
    retained.release()
    throw error
  }
}

struct ConnectFailure: Error {
  var reason: BusError
  /// The server does not want us: not these credentials, at least.
  var isRefusal = false

  /// Of the failures of several servers the one that counts: that one refuses us; else that one may come yet.
  func outweighs(_ other: Self) -> Bool {
    if isRefusal != other.isRefusal { return isRefusal }
    return reason.isTransient && !other.reason.isTransient
  }
}

/// Whether waiting helps: a server that is not there may come, one that refuses us keeps to it.
private func connectError(_ status: natsStatus) -> BusError {
  let text = natsErrorText(status)
  switch status {
  case NATS_CONNECTION_AUTH_FAILED, NATS_NOT_PERMITTED:
    return .failed("nats-server refuses the credentials: \(text)")
  case NATS_SECURE_CONNECTION_WANTED:
    return .failed("nats-server offers no TLS, and this node is told to use nothing else")
  case NATS_SECURE_CONNECTION_REQUIRED, NATS_SSL_ERROR:
    return .failed("nats-server and this node do not agree on TLS: \(text)")
  case NATS_PROTOCOL_ERROR, NATS_NO_SERVER_SUPPORT:
    return .failed("what answers is no nats-server that this node can use: \(text)")
  // The library's own words may quote what it could not read, a password perhaps.
  case NATS_ADDRESS_MISSING, NATS_INVALID_ARG:
    return .failed("cannot connect to nats-server: not an address that it can be reached at")
  case NATS_NOT_FOUND, NATS_NO_MEMORY, NATS_FAILED_TO_INITIALIZE:
    return .failed("cannot connect to nats-server: \(text)")
  // What a server says before it closes, and a credentials file that cannot be used. A server that
  // is full has room when others leave.
  case NATS_ERR where !text.contains("maximum"):
    return .failed("cannot connect to nats-server: \(text)")
  // Also a host name that is not known: it may come with the server.
  default:
    return .notReady("no nats-server can be reached: \(text)")
  }
}

private func configure(
  _ options: OpaquePointer, _ settings: NATSOptions, server: String, name: String
) throws(ConnectFailure) {
  try setServer(options, server)
  try check(natsOptions_SetName(options, name), "not a name: '\(name)'")
  let parts = settings.connectTimeout.components
  let timeout = parts.seconds * 1000 + parts.attoseconds / 1_000_000_000_000_000
  try check(natsOptions_SetTimeout(options, max(1, timeout)), "connect timeout")
  // A link that broke is replaced: see `Link`.
  try check(natsOptions_SetAllowReconnect(options, false), "reconnect")
  // A server whose machine has lost its network closes nothing. Found out within 6 s: callers are waited
  // for 15 s.
  try check(natsOptions_SetPingInterval(options, 2_000), "ping interval")
  try check(natsOptions_SetMaxPingsOut(options, 2), "pings")
  try check(natsOptions_SetIOBufSize(options, 64 << 10), "buffer size")
  // Without this the library leaves the writing to a thread that it does not start in this mode.
  try check(natsOptions_SetSendAsap(options, true), "send mode")
  // Only TLS waits within a write: without this a server that hangs would hold the thread for ever.
  try check(natsOptions_SetWriteDeadline(options, 4_000), "write deadline")
}

private func setServer(_ options: OpaquePointer, _ server: String) throws(ConnectFailure) {
  // Which one stays unsaid: what cannot be read as an address may have a password anywhere.
  try check(natsOptions_SetURL(options, server), "not a NATS address")
  // Operators name the servers; those that a server tells of are at addresses of its own network.
  try check(natsOptions_SetIgnoreDiscoveredServers(options, true), "servers")
}

/// Says nothing of who we are before TLS stands, where that is demanded: the library looks at what the server
/// offers before it sends its first byte. It does not look at the URL's scheme.
private func setAccess(
  _ options: OpaquePointer, _ access: NATSAccess, server: String, demandsTLS: Bool
) throws(ConnectFailure) {
  do throws(NATSAccess.Problem) {
    try access.setFiles(options)
    if let user = access.user, let password = try access.password() {
      natsOptions_SetUserInfo(options, user, password)
    }
  } catch {
    throw ConnectFailure(reason: .failed("\(error.part.rawValue): \(error)"))
  }
  if let file = access.credentialsFile {
    try check(
      natsOptions_SetUserCredentialsFromFiles(options, file, nil),
      "cannot use the credentials file \(file)")
  }
  guard demandsTLS else { return }
  guard let host = ServerGreeting.split(server)?.host else {
    throw ConnectFailure(reason: connectError(NATS_INVALID_ARG))
  }
  try check(natsOptions_SetSecure(options, true), "TLS")
  try check(natsOptions_SetExpectedHostname(options, host), "the server's name")
}

private func setCallbacks(
  _ options: OpaquePointer, _ link: UnsafeMutableRawPointer
) throws(ConnectFailure) {
  let status = natsOptions_SetEventLoop(
    options, link,
    { userData, loop, _, socket in
      userData?.pointee = loop
      state(loop).attached(Int32(socket))
      return NATS_OK
    },
    { userData, add in
      if !add { state(userData).detached() }
      return NATS_OK
    },
    { userData, add in
      state(userData).setWantsWrite(add)
      return NATS_OK
    },
    { _ in NATS_OK })
  try check(status, "event loop")
  try check(
    natsOptions_SetErrorHandler(
      options,
      { _, _, status, link in
        let text = natsStatus_GetText(status).map { String(cString: $0) } ?? "unknown error"
        state(link).thread.options.onEvent(.failure(text))
      }, link), "error handler")
  try check(
    natsOptions_SetClosedCB(
      options,
      { _, link in
        guard let link else { return }
        Unmanaged<LinkState>.fromOpaque(link).release()
      }, link), "closed handler")
}

private func state(_ pointer: UnsafeMutableRawPointer?) -> LinkState {
  Unmanaged<LinkState>.fromOpaque(pointer!).takeUnretainedValue()
}

private func check(_ status: natsStatus, _ what: String) throws(ConnectFailure) {
  guard status == NATS_OK else {
    throw ConnectFailure(reason: .failed("\(what): \(natsErrorText(status))"))
  }
}
