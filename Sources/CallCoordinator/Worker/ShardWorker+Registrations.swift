internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire

/// Registrations on their way to the store.
extension ShardWorker {
  /// A read of a key that a child task carries out.
  struct RegistrationRead: Sendable {
    var term: ShardTerm
    var key: RegistrationWrites.Key
  }

  /// The record that is being committed has brought a registration, or a removal (nil), about.
  func write(
    _ key: RegistrationWrites.Key, _ value: [UInt8]?, _ token: UInt64, _ shard: HeldShard,
    now: Timestamp
  ) {
    shard.storesOutstanding += 1
    let write = RegistrationWrites.Write(
      key, value, token: token, record: shard.pipeline.lastNumber)
    var steps: [RegistrationWrites.Step] = []
    shard.registrations.add(write, &steps)
    for step in steps { carryOut(step, shard.term, now: now) }
  }

  private func carryOut(_ step: RegistrationWrites.Step, _ term: ShardTerm, now: Timestamp) {
    switch step {
    case .write(let write, let expecting): start(write, expecting, term)
    case .read(let key): registrationReads.append(RegistrationRead(term: term, key: key))
    case .stored(let token): registrationEnded(term, token, ok: true, now: now)
    // Not at once: effects of the same record may still have to be carried out.
    case .failed(let token): inbox.offer(.registrationFailed(term, token: token))
    }
  }

  private func start(
    _ write: RegistrationWrites.Write, _ expecting: UInt64, _ term: ShardTerm
  ) {
    let inbox = inbox
    let done: @Sendable (AppendResult) -> Void = { result in
      inbox.offer(.registrationWritten(term, write.key, result))
    }
    let key = text(write.key, term.shard)
    if let value = write.value {
      dependencies.registrations.put(key, value, expecting: expecting, completion: done)
    } else {
      dependencies.registrations.delete(key, expecting: expecting, completion: done)
    }
  }

  private nonisolated func text(_ key: RegistrationWrites.Key, _ shard: Int) -> String {
    Subjects.registrationKey(
      shard: shard, app: key.user.app, user: key.user.user, device: key.device.text)
  }

  nonisolated func perform(_ read: RegistrationRead) async {
    // Where nobody can tell, whoever registers next tries without, and has it read again.
    let entry = try? await dependencies.registrations.get(text(read.key, read.term.shard))
    inbox.offer(.registrationRead(read.term, read.key, entry))
  }

  func registrationRead(
    _ shard: HeldShard, _ key: RegistrationWrites.Key, _ entry: KeyValueEntry?, now: Timestamp
  ) {
    var steps: [RegistrationWrites.Step] = []
    shard.registrations.read(key, entry, record: shard.pipeline.lastNumber, &steps)
    for step in steps { carryOut(step, shard.term, now: now) }
  }

  func registrationWritten(
    _ term: ShardTerm, _ key: RegistrationWrites.Key, _ result: AppendResult, now: Timestamp
  ) {
    guard let shard = holding(term) else {
      return dependencies.metrics.registrationWrites.increment()
    }
    var steps: [RegistrationWrites.Step] = []
    shard.registrations.ended(key, result, &steps)
    for step in steps { carryOut(step, term, now: now) }
  }

  func registrationEnded(_ term: ShardTerm, _ token: UInt64, ok: Bool, now: Timestamp) {
    dependencies.metrics.registrationWrites.increment()
    if !ok { dependencies.metrics.registrationWritesFailed.increment() }
    guard let shard = holding(term) else { return }
    shard.storesOutstanding -= 1
    decide(shard, now: now) {
      $0.registrationStored(token: token, ok: ok, now: now, into: &$1)
    }
    touch(term.shard)
  }
}
