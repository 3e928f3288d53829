internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire

/// Registrations on their way to the store.
extension ShardWorker {
  /// Writes a registration, or removes it (nil), as the record being committed says.
  func write(
    _ key: RegistrationWrites.Key, _ value: [UInt8]?, _ token: UInt64, _ shard: HeldShard,
    now: Timestamp
  ) {
    shard.storesOutstanding += 1
    let write = RegistrationWrites.Write(
      key, value, token: token, record: shard.pipeline.lastNumber)
    carryOut(shard.registrations.add(write), shard.term, now: now)
  }

  private func carryOut(_ steps: [RegistrationWrites.Step], _ term: ShardTerm, now: Timestamp) {
    for step in steps { carryOut(step, term, now: now) }
  }

  private func carryOut(_ step: RegistrationWrites.Step, _ term: ShardTerm, now: Timestamp) {
    switch step {
    case .write(let write, let expecting): start(write, expecting, term)
    case .read(let key): jobs.append(.readRegistration(term, key))
    case .stored(let token): registrationEnded(term, token, ok: true, now: now)
    // Not at once: other effects of the same record come first.
    case .failed(let token): inbox.offer(.registrationFailed(term, token: token))
    }
  }

  private func start(_ write: RegistrationWrites.Write, _ expecting: UInt64, _ term: ShardTerm) {
    let inbox = inbox
    let done: AppendCompletion = { result in
      inbox.offer(.registrationWritten(term, write.key, result))
    }
    let key = text(write.key, term.shard)
    if let value = write.value {
      registrations.put(key, value, expecting: expecting, completion: done)
    } else {
      registrations.delete(key, expecting: expecting, completion: done)
    }
  }

  private nonisolated func text(_ key: RegistrationWrites.Key, _ shard: Int) -> String {
    if let device = key.device {
      Subjects.registrationKey(
        shard: shard, app: key.user.app, user: key.user.user, device: device.text)
    } else {
      Subjects.rulesKey(shard: shard, app: key.user.app, user: key.user.user)
    }
  }

  nonisolated func readRegistration(_ key: RegistrationWrites.Key, _ term: ShardTerm) async {
    // If the read fails, the next registration expects no entry, which has the key read again.
    let entry = try? await registrations.get(text(key, term.shard))
    inbox.offer(.registrationRead(term, key, entry))
  }

  func registrationRead(
    _ shard: HeldShard, _ key: RegistrationWrites.Key, _ entry: KeyValueEntry?, now: Timestamp
  ) {
    let steps = shard.registrations.read(key, entry, record: shard.pipeline.lastNumber)
    carryOut(steps, shard.term, now: now)
  }

  func registrationWritten(
    _ term: ShardTerm, _ key: RegistrationWrites.Key, _ result: AppendResult, now: Timestamp
  ) {
    guard let shard = holding(term) else { return metrics.registrationWrites.increment() }
    carryOut(shard.registrations.ended(key, result), term, now: now)
  }

  func registrationEnded(_ term: ShardTerm, _ token: UInt64, ok: Bool, now: Timestamp) {
    metrics.registrationWrites.increment()
    if !ok { metrics.registrationWritesFailed.increment() }
    guard let shard = holding(term) else { return }
    shard.storesOutstanding -= 1
    decide(shard, now: now) { $0.registrationStored(token: token, ok: ok, now: now, into: &$1) }
    touch(term.shard)
  }
}
