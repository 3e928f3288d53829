import CallClient
import CallWire

extension AttackContext {
  /// TCP and the WebSocket's handshake, then the end. Over a client's own connections, so that whatever
  /// those speak below the WebSocket is part of it.
  func floodHandshakes() {
    let open = AttackFleet<Handshake>()
    var number = 0
    paceAttack { [self] in
      number += 1
      let this = number
      account.attempts += 1
      let handshake = Handshake()
      handshake.onEnd = { [self] opened in
        if opened { account.connections += 1 } else { account.connectionsFailed += 1 }
        open.remove(this)
      }
      open.add(this, handshake)
      handshake.link = link(handshake)
    }
  }
}

/// One handshake.
private final class Handshake: DeviceLinkDelegate {
  var link: (any DeviceLink)?
  var onEnd: (_ opened: Bool) -> Void = { _ in }

  func linkOpened() {
    link?.close(abruptly: true)
    end(true)
  }

  func linkClosed(_ cause: LinkClosed) { end(false) }
  func linkReceived(_ frame: ServerFrame) {}
  func linkReadCompleted() {}

  private func end(_ opened: Bool) {
    let onEnd = self.onEnd
    self.onEnd = { _ in }
    link = nil
    onEnd(opened)
  }
}
