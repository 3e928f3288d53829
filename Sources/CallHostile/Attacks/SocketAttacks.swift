import CallClient
import CallWire

extension AttackContext {
  /// Answers are many times as long as requests: without a limit of waiting ones, memory grows.
  func pipelineHTTP() {
    let fleet = keepSockets { socket, _ in socket.stopReading() }
    let pair = AttackBytes.get("/metrics", edges[0]) + AttackBytes.get("/healthz", edges[0])
    let lot = 100
    let requests = Array(String(repeating: pair, count: lot / 2).utf8)
    paceAttack(lot: lot, fleet) { socket, _ in socket.write(requests) }
  }

  /// The pongs are not read. Tiny ones cost most: bytes are limited, and each waiting pong takes far more.
  func floodPings() {
    let fleet = keepWebSockets(
      subprotocol: { _ in DeviceCodec.protobuf.subprotocol },
      opened: { socket, _ in socket.stopReading() })
    let lot = 6_000
    let ping = AttackBytes.frame(.ping, [0x70, 0x70])
    let pings = Array(repeatElement(ping, count: lot).joined())
    paceAttack(lot: lot, fleet) { socket, _ in socket.write(pings) }
  }

  /// An edge that reads whole messages keeps each half.
  func sendHalfFrames() {
    let half = [UInt8](repeating: 0x68, count: 60_000)
    let start = AttackBytes.frame(.binary, half, declared: 2 * half.count)
    let fleet = keepWebSockets(
      subprotocol: { _ in DeviceCodec.protobuf.subprotocol },
      opened: { [self] socket, _ in
        if socket.write(start) { account.attempts += 1 }
      })
    paceAttack(fleet) { socket, _ in socket.write([0x68]) }
  }

  /// Half of the requests arrive slowly in their head, half in their body.
  func sendSlowly() {
    let host = "Host: \(edges[0].host):\(edges[0].port)\r\n"
    let head = "GET /v1/connect HTTP/1.1\r\n" + host + "Cookie: "
    let body = "POST /v1/devices HTTP/1.1\r\n" + host + "Content-Length: 60000\r\n\r\n{"
    let fleet = keepSockets { socket, number in
      socket.write((number.isMultiple(of: 2) ? head : body).utf8)
    }
    paceAttack(fleet) { socket, _ in socket.write([0x61]) }
  }

  /// Each connection takes a file descriptor and a little memory.
  func floodConnections() { _ = keepSockets { [self] _, _ in account.attempts += 1 } }

  /// Each signature differs, so that caches are of no use.
  func sendBadTokens() {
    let fleet = keepSockets { [self] socket, _ in
      socket.onRead = { [self] _, bytes in countHTTP(bytes) }
    }
    // Made beforehand, since only the edge's work counts.
    let tokens = (0..<10).flatMap { forgedTokens(100, user: "hostile-\($0)") }
    var next = 0
    let lot = 20
    paceAttack(lot: lot, fleet) { [self] socket, _ in
      var requests = ""
      for _ in 0..<lot {
        next += 1
        requests += AttackBytes.get(
          "/v1/calls/nobody/\(callID())", edges[0], token: tokens[next % tokens.count])
      }
      return socket.write(requests.utf8)
    }
  }

  /// TCP and the WebSocket's handshake, then the end, over a client's own connections.
  func floodHandshakes() {
    let open = AttackFleet<AttackSession>()
    var number = 0
    paceAttack { [self] in
      number += 1
      account.attempts += 1
      let session = AttackSession(self, user: "hostile-handshakes", device: "h")
      session.leavesWhenOpen = true
      session.onEnd = { [number] in open.remove(number) }
      open.add(number, session)
      session.open()
    }
  }
}
