internal import CNATS
internal import CallBus
internal import Glibc

/// Connects; blocks. Each server has `connectTimeout`, and one that greets and then says nothing more two of
/// them and a second.
///
/// The library keeps a reference to the link until it has called the closed handler, its last callback for
/// a connection.
func openConnection(
  for thread: ConnectionThread, url: String, name: String, lost: String = ""
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
    try configure(options, thread.options, url: url, name: name, lost: lost)
    try setCallbacks(options, retained.toOpaque())
    let watch = HandshakeWatch(servers: url, connectTimeout: thread.options.connectTimeout)
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
}

/// Whether waiting helps: a server that is not there may come, one that refuses us keeps to it.
private func connectError(_ status: natsStatus) -> BusError {
  let text = natsErrorText(status)
  switch status {
  case NATS_CONNECTION_AUTH_FAILED, NATS_NOT_PERMITTED:
    return .failed("nats-server refuses the credentials: \(text)")
  case NATS_SECURE_CONNECTION_REQUIRED, NATS_SECURE_CONNECTION_WANTED, NATS_SSL_ERROR:
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
  _ options: OpaquePointer, _ settings: NATSOptions, url: String, name: String, lost: String
) throws(ConnectFailure) {
  try setServers(options, url, lost: lost)
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
  if let file = settings.credentialsFile {
    try check(
      natsOptions_SetUserCredentialsFromFiles(options, file, nil),
      "cannot use the credentials file \(file)")
  }
}

private func setServers(
  _ options: OpaquePointer, _ list: String, lost: String
) throws(ConnectFailure) {
  var urls = ServerOrder.drawn(from: list, lost: lost).map { UnsafePointer<CChar>(strdup($0)) }
  defer { for url in urls { free(UnsafeMutablePointer(mutating: url)) } }
  let status = natsOptions_SetServers(options, &urls, Int32(urls.count))
  // Which one stays unsaid: what cannot be read as an address may have a password anywhere.
  try check(status, "not a NATS address")
  try check(natsOptions_SetNoRandomize(options, true), "server order")
  // Operators name the servers; those that a server tells of are at addresses of its own network.
  try check(natsOptions_SetIgnoreDiscoveredServers(options, true), "servers")
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
