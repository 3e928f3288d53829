internal import CNATS
internal import CallBus

/// The library's options for a connection, which it owns.
///
/// `@safe`: the pointer stays in here and is valid until `deinit`; the library copies what it is given.
@safe struct ConnectOptions: ~Copyable {
  private let raw: OpaquePointer

  init() throws(ConnectFailure) {
    var raw: OpaquePointer?
    try check(unsafe natsOptions_Create(&raw), "the library does not start")
    guard let raw = unsafe raw else {
      throw ConnectFailure(reason: .failed("the library does not start"))
    }
    unsafe self.raw = raw
  }

  deinit { unsafe natsOptions_Destroy(raw) }

  func configure(_ settings: NATSOptions, server: String, name: String) throws(ConnectFailure) {
    // Errors do not quote the server: text that is not an address may contain a password anywhere.
    try check(unsafe natsOptions_SetURL(raw, server), "not a NATS address")
    // Operators name the servers; those that a server advertises have addresses of its own network.
    try check(unsafe natsOptions_SetIgnoreDiscoveredServers(raw, true), "servers")
    try check(unsafe natsOptions_SetName(raw, name), "not a name: '\(name)'")
    let parts = settings.connectTimeout.components
    let timeout = parts.seconds * 1000 + parts.attoseconds / 1_000_000_000_000_000
    try check(unsafe natsOptions_SetTimeout(raw, max(1, timeout)), "connect timeout")
    // A broken link is replaced: see `Link`.
    try check(unsafe natsOptions_SetAllowReconnect(raw, false), "reconnect")
    // A server whose machine lost its network closes nothing. This detects it within 6 s; a call gives its parties 15 s
    // to connect.
    try check(unsafe natsOptions_SetPingInterval(raw, 2_000), "ping interval")
    try check(unsafe natsOptions_SetMaxPingsOut(raw, 2), "pings")
    try check(unsafe natsOptions_SetIOBufSize(raw, 64 << 10), "buffer size")
    // Without this the library leaves writing to a thread that it does not start in event-loop mode.
    try check(unsafe natsOptions_SetSendAsap(raw, true), "send mode")
    // Only TLS blocks in a write; without this a server that hangs would block the thread for ever.
    try check(unsafe natsOptions_SetWriteDeadline(raw, 4_000), "write deadline")
  }

  /// Sets the credentials. Where TLS is demanded, none are sent before it is established: the library checks what the
  /// server offers before it sends its first byte. It does not look at the URL's scheme.
  func setAccess(_ access: NATSAccess, server: String, demandsTLS: Bool) throws(ConnectFailure) {
    do throws(NATSAccess.Problem) {
      try setFiles(access)
      if let user = access.user, let password = try access.password() {
        unsafe natsOptions_SetUserInfo(raw, user, password)
      }
    } catch {
      throw ConnectFailure(reason: .failed("\(error.part.rawValue): \(error)"))
    }
    if let file = access.credentialsFile {
      try check(
        unsafe natsOptions_SetUserCredentialsFromFiles(raw, file, nil),
        "cannot use the credentials file \(file)")
    }
    guard demandsTLS else { return }
    guard let host = ServerGreeting.split(server)?.host else {
      throw ConnectFailure(NATS_INVALID_ARG)
    }
    try check(unsafe natsOptions_SetSecure(raw, true), "TLS")
    try check(unsafe natsOptions_SetExpectedHostname(raw, host), "the server's name")
  }

  /// Loads the files for TLS. That enables TLS, and leaves it to the server whether it is used.
  func setFiles(_ access: NATSAccess) throws(NATSAccess.Problem) {
    func check(_ part: NATSAccess.Part, _ status: natsStatus) throws(NATSAccess.Problem) {
      guard status != NATS_OK else { return }
      throw NATSAccess.Problem(
        part: part, description: "it cannot be used (\(natsErrorText(status)))")
    }
    if let ca = access.ca {
      try check(.natsCA, unsafe natsOptions_LoadCATrustedCertificates(raw, ca))
    }
    if let certificate = access.certificate, let key = access.key {
      try check(.natsCertificate, unsafe natsOptions_LoadCertificatesChain(raw, certificate, key))
    }
  }

  /// Connects, and reports to `state` from then on; blocks.
  ///
  /// The library retains `state` until it has called the closed handler, its last callback for a connection.
  func connect(_ state: LinkState, watch: HandshakeWatch) throws(ConnectFailure) -> Link {
    let retained = unsafe Unmanaged.passRetained(state)
    var connection: OpaquePointer?
    do throws(ConnectFailure) {
      try unsafe setCallbacks(retained.toOpaque())
      let status = unsafe natsConnection_Connect(&connection, raw)
      watch.end()
      guard status == NATS_OK, let connection = unsafe connection else {
        let failure = ConnectFailure(status)
        throw watch.hasTimedOut && !failure.isRefusal ? .silentServer : failure
      }
      return unsafe Link(owning: connection, state: state)
    } catch {
      unsafe retained.release()
      throw error
    }
  }

  private func setCallbacks(_ state: UnsafeMutableRawPointer) throws(ConnectFailure) {
    let status = unsafe natsOptions_SetEventLoop(
      raw, state,
      { userData, loop, _, socket in
        unsafe userData?.pointee = loop
        unsafe linkState(loop).attached(Int32(socket))
        return NATS_OK
      },
      { userData, add in
        if !add { unsafe linkState(userData).detached() }
        return NATS_OK
      },
      { userData, add in
        unsafe linkState(userData).setWantsWrite(add)
        return NATS_OK
      },
      { _ in NATS_OK })
    try check(status, "event loop")
    try check(
      unsafe natsOptions_SetErrorHandler(
        raw,
        { _, _, status, state in
          let text =
            unsafe natsStatus_GetText(status).map { unsafe String(cString: $0) } ?? "unknown error"
          unsafe linkState(state).thread.options.onEvent(.failure(text))
        }, state), "error handler")
    try check(
      unsafe natsOptions_SetClosedCB(
        raw,
        { _, state in
          guard let state = unsafe state else { return }
          unsafe Unmanaged<LinkState>.fromOpaque(state).release()
        }, state), "closed handler")
  }
}

private func linkState(_ pointer: UnsafeMutableRawPointer?) -> LinkState {
  unsafe Unmanaged<LinkState>.fromOpaque(pointer!).takeUnretainedValue()
}

private func check(_ status: natsStatus, _ what: String) throws(ConnectFailure) {
  guard status == NATS_OK else {
    throw ConnectFailure(
      reason: .failed("\(what): \(natsErrorText(status))", code: BusError.Code(status)))
  }
}
