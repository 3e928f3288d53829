import CallClient
import CallCore
import CallWire

/// A hostile device with a good token: it attaches, says what it is told to say, acknowledges nothing.
final class AttackSession: DeviceLinkDelegate {
  private let user: String
  private let device: String
  private unowned let attack: AttackContext
  private var link: (any DeviceLink)?
  private var lastID: UInt64 = 0
  private(set) var isAttached = false
  private var isOver = false
  /// It is after the handshake alone.
  var leavesWhenOpen = false
  var onAttached: (AttackSession) -> Void = { _ in }
  var onInvite: (AttackSession, CallID) -> Void = { _, _ in }
  /// A call of this device's is over, or was not taken.
  var onStopped: (AttackSession) -> Void = { _ in }
  /// Called once.
  var onEnd: () -> Void = {}

  init(_ attack: AttackContext, user: String, device: String) {
    self.attack = attack
    self.user = user
    self.device = device
  }

  func open() { link = attack.link(self) }

  /// - Returns: whether it could be said.
  @discardableResult
  func say(_ command: ClientCommand) -> Bool {
    guard isAttached, let link else { return false }
    lastID += 1
    link.send(ClientFrame(id: lastID, command: command))
    link.flush()
    return true
  }

  /// Closes without a word.
  func leave() {
    link?.close(abruptly: true)
    end()
  }

  private func end() {
    guard !isOver else { return }
    isOver = true
    isAttached = false
    link = nil
    onEnd()
    (onAttached, onInvite, onStopped, onEnd) = ({ _ in }, { _, _ in }, { _ in }, {})
  }

  func linkOpened() {
    attack.account.connections += 1
    guard !leavesWhenOpen else { return leave() }
    lastID += 1
    let request = AttachRequest(
      token: attack.token(user: user), device: device, client: "callload-attack/1")
    link?.send(ClientFrame(id: lastID, command: .attach(request)))
    link?.flush()
  }

  func linkReceived(_ frame: ServerFrame) {
    switch frame {
    case .reply(_, .attached):
      attack.account.count(answer: "attached")
      isAttached = true
      onAttached(self)
    case .reply(_, .error(let error)):
      attack.account.count(answer: error.code.name)
      if isAttached { onStopped(self) } else { leave() }
    case .reply: attack.account.count(answer: "taken")
    case .delivery(let delivery):
      switch delivery.event {
      case .invite: onInvite(self, delivery.call)
      case .stop: onStopped(self)
      case .answered, .ringing, .signal: break
      }
    case .notice(let notice): attack.account.count(answer: "notice \(notice.kind.name)")
    }
  }

  func linkReadCompleted() { link?.flush() }

  func linkClosed(_ cause: LinkClosed) {
    switch cause {
    case .connectFailed, .handshakeFailed, .notTrusted: attack.account.connectionsFailed += 1
    case .protocolError, .writeBufferFull, .closedByPeer, .broken:
      attack.account.connectionsClosed += 1
    }
    end()
  }
}

extension AttackContext {
  /// Keeps sessions open, each of a user and device by its number, and returns those that are attached.
  func keepSessions(
    _ name: @escaping (_ number: Int) -> (user: String, device: String),
    prepare: @escaping (AttackSession, _ number: Int) -> Void = { _, _ in }
  ) -> AttackFleet<AttackSession> {
    let fleet = AttackFleet<AttackSession>()
    // Those that are not attached yet, too, must be held by somebody.
    let all = AttackFleet<AttackSession>()
    keepOpen { [weak self] number, ended in
      guard let self else { return }
      let (user, device) = name(number)
      let session = AttackSession(self, user: user, device: device)
      prepare(session, number)
      let onAttached = session.onAttached
      session.onAttached = { session in
        fleet.add(number, session)
        onAttached(session)
      }
      session.onEnd = {
        fleet.remove(number)
        all.remove(number)
        ended()
      }
      all.add(number, session)
      session.open()
    }
    return fleet
  }

  func place(to callee: String, descriptionBytes: Int = 0) -> ClientCommand {
    let call = callID()
    let description = String(repeating: "d", count: descriptionBytes)
    return .place(
      CallAddress(callee: callee, call: call),
      PlaceRequest(call: call, ringTimeoutSeconds: 5, description: description))
  }

  /// Places a call and cancels it a second later, or limits on live calls would end the attack.
  /// - Returns: whether it was placed.
  func placeAndCancel(
    _ session: AttackSession, to callee: String, descriptionBytes: Int = 0
  ) -> Bool {
    let command = place(to: callee, descriptionBytes: descriptionBytes)
    guard let address = command.address, session.say(command) else { return false }
    after(.seconds(1)) { session.say(.call(address, .cancel)) }
    return true
  }
}
