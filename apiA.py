def ins(path, after, new):
    L=open(path).read().split('\n'); i=[k for k,l in enumerate(L) if l.startswith(after)]
    assert len(i)==1,(after,i); L[i[0]+1:i[0]+1]=new; open(path,'w').write('\n'.join(L))
C='api/stanchion-core.txt'
ins(C,'pub stanchion_core::engine::Background::shares_servers',['pub stanchion_core::engine::Background::slow_wait: core::time::Duration'])
s=open(C).read()
s=s.replace('EngineThread>, core::time::Duration, core::option::Option<stanchion_core::engine::StepsWrap>) -> Self','EngineThread>, core::time::Duration, core::time::Duration, core::option::Option<stanchion_core::engine::StepsWrap>) -> Self')
s=s.replace('pub fn stanchion_core::ErrorKind::is_final','pub fn stanchion_core::ErrorKind::as_str(self) -> &\'static str\npub fn stanchion_core::ErrorKind::is_final')
ev='''pub mod stanchion_core::events
#[non_exhaustive] pub enum stanchion_core::events::WaitOutcome
pub stanchion_core::events::WaitOutcome::Cancelled
pub stanchion_core::events::WaitOutcome::Failed(stanchion_core::ErrorKind)
pub stanchion_core::events::WaitOutcome::Granted
pub stanchion_core::events::WaitOutcome::Refused
pub stanchion_core::events::WaitOutcome::TimedOut
pub struct stanchion_core::events::EndedWait<'a>
pub stanchion_core::events::EndedWait::kind: stanchion_core::Kind
pub stanchion_core::events::EndedWait::name: &'a stanchion_core::Name
pub stanchion_core::events::EndedWait::namespace: &'a str
pub stanchion_core::events::EndedWait::operation: &'static str
pub stanchion_core::events::EndedWait::outcome: stanchion_core::events::WaitOutcome
pub stanchion_core::events::EndedWait::store: &'static str
pub stanchion_core::events::EndedWait::waited: core::time::Duration
impl stanchion_core::events::EndedWait<'_>
pub fn stanchion_core::events::EndedWait<'_>::record(&self, core::time::Duration)
pub const stanchion_core::events::SLOW_WAIT: core::time::Duration
pub fn stanchion_core::events::server_fields(&str) -> (&str, core::option::Option<u16>)
'''
assert s.count('pub mod stanchion_core::limiter\n')==1
s=s.replace('pub mod stanchion_core::limiter\n',ev+'pub mod stanchion_core::limiter\n')
open(C,'w').write(s)
ins('api/stanchion-memory.txt','pub fn stanchion_memory::MemoryStoreBuilder::retention',['pub fn stanchion_memory::MemoryStoreBuilder::slow_wait(self, core::time::Duration) -> Self'])
ins('api/stanchion-redis.txt','pub fn stanchion_redis::RedisBuilder::retention',['pub fn stanchion_redis::RedisBuilder::slow_wait(self, core::time::Duration) -> Self'])
ins('api/stanchion-postgres.txt','pub fn stanchion_postgres::PostgresBuilder::session_ttl',['pub fn stanchion_postgres::PostgresBuilder::slow_wait(self, core::time::Duration) -> Self'])
ins('api/stanchion.txt','pub use stanchion::spi::engine',['pub use stanchion::spi::events'])
