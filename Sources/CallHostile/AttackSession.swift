import CallClient
import CallCore
import CallWire

/// A hostile device with a valid token: it attaches, sends commands, and acknowledges nothing.
final class AttackSession: DeviceLinkDelegate {
  private let user: String
  private let device: String
  private unowned let attack: AttackContext
  private var link: (any DeviceLink)?
  private var lastID: UInt64 = 0
  private(set) var isAttached = false
  private var isOver = false
  /// It closes right after the handshake.
  var leavesWhenOpen = false
  var onAttached: (AttackSession) -> Void = { _ in }
  var onInvite: (AttackSession, CallID) -> Void = { _, _ in }
  /// A call of this device is over, or was refused.
  var onStopped: (AttackSession) -> Void = { _ in }
  /// Called once.
  var onEnd: () -> Void = {}

  init(_ attack: AttackContext, user: String, device: String) {
    self.attack = attack
    self.user = user
    self.device = device
  }

  func open() { link = attack.link(self) }

  /// - Returns: whether it was sent.
  @discardableResult
  func send(_ command: ClientCommand) -> Bool {
    if isAttached { write(command) }
    return isAttached
  }

  private func write(_ command: ClientCommand) {
    lastID += 1
    link?.send(ClientFrame(id: lastID, command: command))
    link?.flush()
  }

  /// Closes without a close frame.
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
    write(
      .attach(
        AttachRequest(
          token: attack.token(user: user), device: device, client: "callload-attack/1")))
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
      case .answered, .ringing, .ringsUntil, .signal, .moved, .transfer: break
      }
    case .notice(let notice): attack.account.count(answer: "notice \(notice.kind.name)")
    case .ongoing, .history, .relays: break
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
  /// Keeps sessions open, each of a user and device by its number.
  /// - Returns: the attached ones.
  func keepSessions(
    _ name: @escaping (_ number: Int) -> (user: String, device: String),
    prepare: @escaping (AttackSession, _ number: Int) -> Void = { _, _ in }
  ) -> AttackFleet<AttackSession> {
    let fleet = AttackFleet<AttackSession>()
    // Holds those that are not attached yet as well.
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
    guard let address = command.address, session.send(command) else { return false }
    after(.seconds(1)) { session.send(.call(address, .cancel)) }
    return true
  }
}
